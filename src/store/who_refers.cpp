// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <string>
#include <vector>

#include <tenure/error.hpp>

#include "collection/handles.hpp"
#include "objects/object_text.hpp"
#include "objects/object_walk.hpp"
#include "os/system_error.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

std::vector<std::string> store::who_refers(const void* object) const {
  store_state& s = *state_;
  s.require_usable();
  const reading_scope reading(s);
  const sound_object wanted = find_sound(*s.databases, object);
  if (!wanted)
    throw error(errc::bad_option, s.directory + ": there is no object at " + os::hexadecimal(object) + ": " +
                                      describe_address(object) + "so nothing refers to it");
  std::vector<std::string> found;
  for (const referrer& r : find_referrers(*s.databases, wanted.at))
    found.push_back(r.from == 0 ? "root " + r.root + " of " + r.in->name
                                : object_text(*s.databases, r.from) + field_text(*s.databases, r.from, r.offset));
  const std::scoped_lock lock(detail::handles::mutex());
  detail::handles::for_each([&](const void* to) {
    if (find_sound(*s.databases, to).at == wanted.at) found.emplace_back("a handle of the program");
  });
  return found;
}

}  // namespace tenure
