// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/root_table.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "objects/stored_types.hpp"

namespace tenure::cache {

namespace {

constexpr std::uint64_t least_entries = 8;

// Entries that the mapped heap would have, too: the last one takes the place of one that is removed, and unused ones are zero.
class edited_table {
 public:
  edited_table(open_database& in, std::uint64_t at) : in_(in) {
    in.stored.read(at, std::as_writable_bytes(std::span(&table, 1)), "its root table");
    if (table.capacity != in.stored.find(address_of(table.entries)).size / sizeof(heap::root_entry))
      throw in.stored.damaged("its root table says that it has room for " + std::to_string(table.capacity) +
                              " entries, which is wrong");
    before_.resize(static_cast<std::size_t>(table.capacity));
    if (!before_.empty())
      in.stored.read(address_of(table.entries), std::as_writable_bytes(std::span(before_)), "its roots");
    entries_ = before_;
  }

  void apply(const open_transaction::root_changes& changes, descriptions& objects) {
    std::vector<std::uint64_t> removed;
    for (const auto& [name, object] : changes) {
      const auto known = in_.roots().find(name);
      if (known == in_.roots().end()) continue;
      if (object)
        entries_[known->second.entry].object = reinterpret_cast<void*>(*object);
      else
        removed.push_back(known->second.entry);
    }
    std::ranges::sort(removed, std::ranges::greater());
    for (const std::uint64_t entry : removed) {
      objects.remove(address_of(entries_[entry].name.text), entries_[entry].name.length);
      entries_[entry] = entries_[--table.count];
      entries_[table.count] = {};
    }
    for (const auto& [name, object] : changes)
      if (object && !in_.roots().contains(name)) add({objects.store_text(name), reinterpret_cast<void*>(*object)});
  }

  void write(descriptions& objects, edited_pages& pages) {
    if (entries_.size() > before_.size()) {
      if (!before_.empty()) objects.remove(address_of(table.entries), before_.size() * sizeof before_[0]);
      table.capacity = entries_.size();
      table.entries = reinterpret_cast<heap::root_entry*>(objects.store(entries_));
      return;
    }
    for (std::size_t n = 0; n < entries_.size(); ++n)
      if (std::memcmp(&entries_[n], &before_[n], sizeof before_[n]) != 0)
        pages.write(address_of(table.entries + n) - in_.stored.home(), std::as_bytes(std::span(&entries_[n], 1)));
  }

  heap::root_table table;

 private:
  void add(const heap::root_entry& entry) {
    if (table.count == entries_.size()) entries_.resize(std::max<std::size_t>(least_entries, 2 * entries_.size()));
    entries_[table.count++] = entry;
  }

  open_database& in_;
  std::vector<heap::root_entry> before_, entries_;
};

}  // namespace

void write_roots(open_database& in, const open_transaction::root_changes& changes, descriptions& objects,
                 edited_pages& pages) {
  const auto at = static_cast<std::uint64_t>(in.stored.header().roots);
  edited_table edited(in, at);
  edited.apply(changes, objects);
  edited.write(objects, pages);
  pages.write(at - in.stored.home(), std::as_bytes(std::span(&edited.table, 1)));
}

}  // namespace tenure::cache
