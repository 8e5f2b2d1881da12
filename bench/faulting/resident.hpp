// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects in memory, and the words that refer to them.
//
// A word is 0, a direct pointer (the lowest three bits are 0), a tagged identifier (the lowest bit is 1: the home address and 1) or
// an integer of the interpreter's (the lowest three bits are 2). A resident object begins with a direct pointer to its class; a
// block that stands for one with a tagged word: the identifier, or the object's address and 3 [Hosking §4.2.1.2, §4.2.1.3].
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace tenure::bench::faulting {

using word = std::uint64_t;

constexpr word identifier_tag = 1, forward_tag = 3, integer_tag = 2;
[[nodiscard]] constexpr bool is_identifier(word of) { return (of & 1) != 0; }
[[nodiscard]] constexpr bool is_integer(word of) { return (of & 7) == integer_tag; }
[[nodiscard]] constexpr word integer(std::int64_t value) { return static_cast<word>(value) << 3 | integer_tag; }
[[nodiscard]] constexpr std::int64_t value_of(word of) { return static_cast<std::int64_t>(of) >> 3; }

// An object, or a block that stands for one.
struct resident {
  word first;
  [[nodiscard]] std::byte* fields() { return reinterpret_cast<std::byte*>(this + 1); }
  // What is stored of the object, with words in place of pointers.
  template <class T>
  [[nodiscard]] T& as() {
    return *reinterpret_cast<T*>(this + 1);
  }
};
[[nodiscard]] inline resident* resident_at(word of) { return std::bit_cast<resident*>(of); }
[[nodiscard]] inline word word_of(const resident* of) { return std::bit_cast<word>(of); }
// What a field of the stored form has as a word.
template <class T>
[[nodiscard]] word word_of(T* const& field) {
  word value;
  std::memcpy(&value, &field, sizeof value);
  return value;
}

// Memory for objects, one after the other; given back as a whole.
class object_space {
 public:
  [[nodiscard]] resident* allocate(std::size_t fields) {
    const std::size_t size = (sizeof(resident) + fields + 7) / 8 * 8;
    if (size > left_) {
      chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(chunk));
      next_ = chunks_.back().get();
      left_ = chunk;
    }
    auto* const made = reinterpret_cast<resident*>(next_);
    next_ += size;
    left_ -= size;
    return made;
  }

 private:
  static constexpr std::size_t chunk = 1 << 20;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace tenure::bench::faulting
