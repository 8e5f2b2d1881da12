// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/databases.hpp"

#include <span>

#include "objects/stored_types.hpp"

namespace tenure::cache {

void open_database::read_roots() {
  if (knows_roots_) return;
  std::unordered_map<std::string, root> found;
  std::unordered_set<std::uint64_t> objects;
  const auto at = static_cast<std::uint64_t>(stored.header().roots);
  if (at != 0) {
    heap::root_table table;
    stored.read(at, std::as_writable_bytes(std::span(&table, 1)), "its root table");
    const stored_database::stored_object list = stored.find(address_of(table.entries));
    if (table.count != 0 && table.count > list.size / sizeof(heap::root_entry))
      throw stored.damaged("its root table has " + std::to_string(table.count) + " entries, and no room for them");
    for (std::uint64_t n = 0; n < table.count; ++n) {
      const std::string what = "its root " + std::to_string(n);
      heap::root_entry e;
      stored.read(address_of(table.entries) + n * sizeof e, std::as_writable_bytes(std::span(&e, 1)), what);
      if (e.name.length > longest_root_name)
        throw stored.damaged(what + " has a name of " + std::to_string(e.name.length) + " bytes");
      std::string name(static_cast<std::size_t>(e.name.length), '\0');
      stored.read(address_of(e.name.text), std::as_writable_bytes(std::span(name)), "the name of " + what);
      found.emplace(std::move(name), root{address_of(e.object), n});
      objects.insert(address_of(e.object));
    }
  }
  roots_ = std::move(found);
  root_objects_ = std::move(objects);
  knows_roots_ = true;
}

const std::unordered_map<std::string, open_database::root>& open_database::roots() {
  read_roots();
  return roots_;
}

}  // namespace tenure::cache
