// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Named roots [PM3 §6.1]: ordinary persistent objects, changed in transactions like any others.
#include <algorithm>
#include <cassert>

#include <tenure/barriers.hpp>
#include <tenure/error.hpp>

#include "objects/database_state.hpp"

namespace tenure {

using namespace heap;

heap::root_table& database_state::root_table() const {
  if (header().roots == stored_address::none)
    throw error(errc::damaged,
                file + ": its header refers to no table of roots; `tenure verify` tells all that is wrong");
  return *object_at<heap::root_table>(header().roots);
}

root_entry* database_state::find_root(std::string_view root_name) const { return names->find(root_table(), root_name); }

// The transaction may go on where memory is too short. So each step first does what may fail.
void database_state::add_root(std::string_view root_name, void* object) {
  heap::root_table& table = root_table();
  if (table.count == table.capacity) {
    const std::uint64_t capacity = std::max<std::uint64_t>(8, 2 * table.capacity);
    auto* const larger = make_array<root_entry>(capacity);
    std::copy_n(table.entries, table.count, larger);
    if (table.entries != nullptr) retire(table.entries);
    change(table.entries) = larger;
    change(table.capacity) = capacity;
  }
  assert(table.count < table.capacity && map->contains(reinterpret_cast<address>(object)));
  const stored_text text = make_text(root_name);
  names->adding(table, root_name);
  change(table.entries[table.count]) = {text, object};
  ++change(table.count);
}

void database_state::remove_root(std::string_view root_name) {
  heap::root_table& table = root_table();
  root_entry* const found = find_root(root_name);
  if (found == nullptr)
    throw error(errc::no_such_root, file + ": has no root named \"" + std::string(root_name) + "\"");
  retire(found->name.text);
  names->removing(table, *found);
  change(*found) = table.entries[table.count - 1];
  change(table.entries[--change(table.count)]) = {};
}

}  // namespace tenure
