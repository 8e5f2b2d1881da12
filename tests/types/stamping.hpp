// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A table of stable vtables and the replacing of vtable pointers, in the obvious way.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <tenure/type.hpp>

#include "types/stable_vtables.hpp"

namespace types_test {

class vtable_table {
 public:
  using key = std::pair<std::string, std::uint32_t>;  // type, subobject

  explicit vtable_table(std::byte* memory) : memory_(memory) {}

  const void* word_for(const tenure::type& t, std::uint32_t subobject) {
    const key wanted{t.name, subobject};
    for (std::size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i] == wanted) return tenure::types::word_of(slot(i));
    tenure::types::fill(slot(keys_.size()), t, subobject);
    keys_.push_back(wanted);
    return tenure::types::word_of(slot(keys_.size() - 1));
  }
  // Gives all vtable pointers in the object that there are the stable values; returns how many.
  std::size_t stamp(void* object, const tenure::type& t) {
    const tenure::pointer_map map(t);
    std::size_t count = 0;
    for (const auto& w : map.words()) {
      if (w.kind != tenure::field_kind::vtable || !map.holds(w, static_cast<std::byte*>(object))) continue;
      const void* const stable = word_for(*w.of, w.slot);
      std::memcpy(static_cast<std::byte*>(object) + w.offset, &stable, sizeof stable);
      ++count;
    }
    return count;
  }
  [[nodiscard]] std::byte* slot(std::size_t i) const { return memory_ + i * tenure::types::vtable_slot_size; }
  [[nodiscard]] const std::vector<key>& keys() const { return keys_; }

 private:
  std::byte* memory_;
  std::vector<key> keys_;
};

// What the compiler knows about the object behind the pointer is forgotten.
template <class T>
T* opaque(T* pointer) {
  asm volatile("" : "+r"(pointer)::"memory");
  return pointer;
}

}  // namespace types_test
