// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/registry.hpp>

#include <cstddef>
#include <mutex>
#include <unordered_set>

namespace tenure {
namespace {

struct registrations {
  std::mutex mutex;
  std::vector<const type& (*)()> made_by;
};
// Never destroyed, because objects at namespace scope register at any time before and after other such objects exist.
registrations& all() {
  static registrations* const the_registrations = new registrations;
  return *the_registrations;
}

}  // namespace

void detail::register_type(const type& (*make)()) {
  registrations& r = all();
  const std::lock_guard lock(r.mutex);
  r.made_by.push_back(make);
}

std::vector<const type*> registered_types() {
  std::vector<const type& (*)()> made_by;
  {
    registrations& r = all();
    const std::lock_guard lock(r.mutex);
    made_by = r.made_by;
  }
  // Without the lock, because making a description runs constructors of the program's classes.
  std::vector<const type*> types;
  std::unordered_set<const type*> found;
  const auto add = [&](const type& t) {
    if (found.insert(&t).second) types.push_back(&t);
  };
  for (const type& (*make)() : made_by) add(make());
  for (std::size_t n = 0; n < types.size(); ++n) {
    for (const type_field& f : types[n]->fields)
      if (f.of) add(f.of());
    for (const type_reference& allocated : types[n]->allocates) add(allocated());
  }
  return types;
}

}  // namespace tenure
