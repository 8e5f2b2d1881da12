// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/pinned_types.hpp"

#include <string_view>

#include <tenure/fields.hpp>

#include "objects/stored_types.hpp"
#include "rewrite/key_orders.hpp"

namespace tenure {

using namespace heap;

bool is_of_the_heap(const known_type& type) { return std::string_view(type.of->name).starts_with("tenure::heap::"); }

bool pinning_types::pins_targets(const database_state& in, const known_type& type) {
  known& of = known_[&in];
  if (const std::uint32_t count = in.types->count(); of.types != count) {
    of.pins = rewriting::with_keys_by_address(*in.types);
    of.types = count;
    const std::string& root = type_of<root_entry>().name;
    for (std::uint32_t n = 1; n < of.pins.size(); ++n)
      if (const known_type* const each = in.types->find(n); each != nullptr && each->of->name == root)
        of.pins[n] = true;
  }
  return type.index < of.pins.size() && of.pins[type.index];
}

}  // namespace tenure
