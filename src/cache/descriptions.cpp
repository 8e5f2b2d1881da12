// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/descriptions.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include <tenure/error.hpp>

namespace tenure::cache {

namespace {

constexpr std::uint64_t least_table = 32;  // types

template <class T>
T* pointer_to(std::uint64_t home) {
  return reinterpret_cast<T*>(home);
}

}  // namespace

descriptions::~descriptions() {
  if (is_committed_) return;
  for (const object& o : objects_) in_.free.give_back(o.home, o.bytes.size());
}

void descriptions::committed() noexcept {
  for (const auto& [index, home] : described_) in_.types.described(index);
  is_committed_ = true;
}

std::uint64_t descriptions::store(const type& of, std::span<const std::byte> bytes) {
  const std::uint32_t index = in_.types.index_of(of);
  objects_.push_back({0, index, {bytes.begin(), bytes.end()}});
  object& made = objects_.back();
  try {
    made.home = in_.free.take({index, bytes.size(), of.alignment});
  } catch (...) {
    objects_.pop_back();
    throw;
  }
  const std::uint64_t home = made.home;
  describe(index);
  return home;
}

heap::stored_text descriptions::store_text(std::string_view text) {
  if (text.empty()) return {};
  return {pointer_to<const char>(store(std::vector<char>(text.begin(), text.end()))), text.size()};
}

void descriptions::describe(std::uint32_t index) {
  const auto what = in_.types.find_undescribed(index);
  if (!what || std::ranges::find(described_, index, [](const auto& d) { return d.first; }) != described_.end()) return;
  // Noted before anything else, because it may describe the types of the description itself.
  described_.emplace_back(index, 0);
  const std::size_t number = described_.size() - 1;
  const type& t = *what->program;
  heap::stored_type made{};
  made.name = store_text(t.name);
  made.size = t.size;
  made.alignment = t.alignment;
  made.fingerprint = t.fingerprint;
  made.version = t.version;
  made.flags = heap::flags_of(t);
  made.first_slot = what->first_slot;
  made.slots = what->slots;
  made.field_count = t.fields.size();
  std::vector<heap::stored_field> fields;
  for (const type_field& f : t.fields) {
    const bool is_nested = f.kind == field_kind::nested && f.of;
    heap::stored_field& s = fields.emplace_back(heap::stored_form_of(f, is_nested ? in_.types.index_of(f.of()) : 0));
    s.name = store_text(f.name);
    s.type_name = store_text(f.type_name);
    if (is_nested) describe(s.of);
  }
  if (!fields.empty()) made.fields = pointer_to<heap::stored_field>(store(fields));
  described_[number].second = store(std::vector{made});
}

void descriptions::write_table(edited_pages& pages) {
  if (described_.empty()) return;
  stored_database& stored = in_.stored;
  const auto at = static_cast<std::uint64_t>(stored.header().types);
  heap::type_table table;
  stored.read(at, std::as_writable_bytes(std::span(&table, 1)), "its type table");
  const auto count = std::ranges::max(described_).first + 1;
  if (count > table.capacity) {
    std::vector<heap::stored_type*> all(std::max<std::size_t>({least_table, 2 * table.capacity, count}));
    stored.read(address_of(table.types), std::as_writable_bytes(std::span(all).first(table.count)), "its type table");
    if (table.capacity != 0) remove(address_of(table.types), table.capacity * sizeof all[0]);
    table.capacity = all.size();
    table.types = pointer_to<heap::stored_type*>(store(all));  // which may describe the type of the table
  }
  for (const auto& [index, home] : described_) {
    const std::uint64_t entry = address_of(table.types) + index * sizeof home;
    const auto fresh = std::ranges::find(objects_, address_of(table.types), &object::home);
    if (fresh != objects_.end())
      std::memcpy(fresh->bytes.data() + index * sizeof home, &home, sizeof home);
    else
      pages.write(entry - stored.home(), std::as_bytes(std::span(&home, 1)));
    table.count = std::max<std::uint64_t>(table.count, index + 1);
  }
  table.slots = std::max<std::uint64_t>(table.slots, in_.types.vtable_slots());
  pages.write(at - stored.home(), std::as_bytes(std::span(&table, 1)));
}

}  // namespace tenure::cache
