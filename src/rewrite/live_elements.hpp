// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which elements of an array are values. Arrays of vectors and deques have further slots, which nobody has constructed, or
// which have old values: those must not be converted, and what is in them must not be looked at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include <tenure/type.hpp>

namespace tenure::rewriting {

// Where vectors and deques are in a value of a type: a vector of ours has a pointer and a size, one of the standard library
// two pointers, a deque two iterators.
struct vector_place {
  std::uint64_t offset;
  enum class kind { ours, standard, deque } is;
  std::vector<field_guard> guards;  // all must hold; offsets are from the value's start
};
[[nodiscard]] std::vector<vector_place> vectors_in(const type& of);

class live_elements {
 public:
  struct range {
    std::uint64_t first, end;
  };
  // What a vector in the value says. `element_size`: of an array, in bytes; 0: it does not matter. `noted`: called for each array
  // of which something was noted.
  void look_at(const vector_place& where, const std::byte* value,
               const std::function<std::uint64_t(std::uintptr_t)>& element_size,
               const std::function<void(std::uintptr_t, range)>& noted);
  [[nodiscard]] bool knows(std::uintptr_t array) const { return ranges_.contains(array); }
  // `all`: the number of slots, which holds if nothing was noted.
  [[nodiscard]] range of(std::uintptr_t array, std::uint64_t all) const {
    const auto found = ranges_.find(array);
    if (found == ranges_.end()) return {0, all};
    return {std::min(found->second.first, all), std::min(found->second.end, all)};
  }

 private:
  void note(std::uintptr_t array, std::uint64_t size, std::uintptr_t first, std::uintptr_t end,
            const std::function<void(std::uintptr_t, range)>& noted);

  std::unordered_map<std::uintptr_t, range> ranges_;
};

}  // namespace tenure::rewriting
