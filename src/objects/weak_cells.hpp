// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds the store's own objects that refer to others without keeping them (tenure/store/weak_cell.hpp)
// [heap.weak.cells].
#pragma once

#include <tenure/store/weak_cell.hpp>

#include "objects/database_set.hpp"

namespace tenure::heap {

// A cell, or the one with which an entry of a finalization queue begins.
struct found_cell {
  cell_kind kind = cell_kind::none;
  bool is_persistent = false;
  tenure::detail::weak_cell* cell = nullptr;
  [[nodiscard]] explicit operator bool() const { return cell != nullptr; }
  // Only if it is one.
  [[nodiscard]] tenure::detail::finalization_entry& entry() const {
    return *reinterpret_cast<tenure::detail::finalization_entry*>(cell);
  }
  // The object: of a message, too. nullptr: none any more.
  [[nodiscard]] void* target() const {
    void* const weakly = tenure::detail::shown(cell->hidden);
    return weakly == nullptr && kind == cell_kind::finalization ? entry().object : weakly;
  }
};

[[nodiscard]] inline found_cell found_cell_of(const database_state& in, const found_object& object) {
  if (!object) return {};
  const known_type* const type = in.types->find(in.map->facts(object).type);
  if (type == nullptr || type->cell == cell_kind::none) return {};
  return {type->cell, object.is_persistent, reinterpret_cast<tenure::detail::weak_cell*>(object.at)};
}

// Whether the database may have any.
[[nodiscard]] inline bool may_have_cells(const database_state& in) {
  for (std::uint32_t n = 1; n < in.types->count(); ++n)
    if (const known_type* const type = in.types->find(n); type != nullptr && type->cell != cell_kind::none) return true;
  return false;
}

// Calls f(const found_cell&) for the persistent ones.
template <class F>
void for_each_persistent_cell(const database_state& in, F&& f) {
  if (!may_have_cells(in)) return;
  const auto look_at = [&](address object) {
    if (const found_cell cell = found_cell_of(in, {object, true, nullptr})) f(cell);
  };
  for (std::uint64_t block = 0; block < in.header().blocks_end; ++block) {
    if (!has_blocks(in.map->kind_of_zone(block / blocks_in_zone))) continue;
    const record_view r = in.map->record(block);
    if (r.entry.kind != block_kind::typed) {
      in.map->for_each_persistent(block, block + 1, look_at);
      continue;
    }
    // The type of a page says it of all its objects.
    for (std::size_t page = 0; page < pages_in_block; ++page) {
      const known_type* const type = r.pages[page].is_typed() ? in.types->find(r.pages[page].type()) : nullptr;
      if (type == nullptr || type->cell == cell_kind::none) continue;
      r.starts.for_each_in_page(page,
                                [&](std::uint64_t g) { look_at(object_of_bit(in.map->start_of(block), r.pages, g)); });
    }
  }
}

}  // namespace tenure::heap
