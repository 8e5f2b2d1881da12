// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/live_elements.hpp"

#include <cstring>

#include "rewrite/key_orders.hpp"

namespace tenure::rewriting {

namespace {

void add_vectors(const type& of, std::uint64_t at, std::vector<field_guard>& guards, std::vector<vector_place>& found) {
  using kind = vector_place::kind;
  const std::string_view name = name_of_elements(of);
  if (name.starts_with("tenure::vector<") && of.size == 24) return found.push_back({at, kind::ours, guards});
  if (name.starts_with("std::vector<") && of.size == 24) return found.push_back({at, kind::standard, guards});
  if (name.starts_with("std::deque<") && of.size == 80) return found.push_back({at, kind::deque, guards});
  for (const type_field& f : of.fields) {
    if (f.kind != field_kind::nested || !f.of) continue;
    if (f.only_if) guards.push_back({at + f.only_if->offset, f.only_if->width, f.only_if->value});
    const std::uint64_t each = f.size / f.count;
    for (std::uint64_t n = 0; n < f.count; ++n) add_vectors(f.of(), at + f.offset + n * each, guards, found);
    if (f.only_if) guards.pop_back();
  }
}

[[nodiscard]] std::uintptr_t pointer_in(const std::byte* at) {
  std::uintptr_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

std::vector<vector_place> vectors_in(const type& of) {
  std::vector<vector_place> found;
  std::vector<field_guard> guards;
  add_vectors(of, 0, guards, found);
  return found;
}

void live_elements::look_at(const vector_place& where, const std::byte* value,
                            const std::function<std::uint64_t(std::uintptr_t)>& element_size,
                            const std::function<void(std::uintptr_t, range)>& noted) {
  for (const field_guard& guard : where.guards) {
    std::uint64_t has = 0;  // little-endian: the first bytes are the low ones
    std::memcpy(&has, value + guard.offset, guard.width);
    if (has != guard.value) return;
  }
  const auto word = [&](std::uint64_t n) { return pointer_in(value + where.offset + n * sizeof(void*)); };
  if (where.is != vector_place::kind::deque) {
    const std::uintptr_t array = word(0);
    const std::uint64_t size = array != 0 ? element_size(array) : 0;
    if (size != 0)
      note(array, size, array, where.is == vector_place::kind::ours ? array + word(1) * size : word(1), noted);
    return;
  }
  // A map of blocks, its size, and iterators: where they are, the block's start and end, and its place in the map.
  const std::uintptr_t first = word(2), start = word(5), last = word(6), finish = word(9), bytes = word(4) - word(3);
  if (word(0) == 0 || start == 0 || start > finish || element_size(word(3)) == 0) return;
  for (std::uintptr_t node = start; node <= finish; node += sizeof(void*)) {
    const std::uintptr_t block = pointer_in(reinterpret_cast<const std::byte*>(node));
    if (const std::uint64_t size = element_size(block); size != 0)
      note(block, size, node == start ? first : block, node == finish ? last : block + bytes, noted);
  }
}

void live_elements::note(std::uintptr_t array, std::uint64_t size, std::uintptr_t first, std::uintptr_t end,
                         const std::function<void(std::uintptr_t, range)>& noted) {
  const range found{(first - array) / size, (end - array) / size};
  ranges_[array] = found;
  noted(array, found);
}

}  // namespace tenure::rewriting
