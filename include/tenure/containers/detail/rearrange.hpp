// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Changes the order of elements in place, like std::rotate and std::remove_if, but without <algorithm>, which includes
// all ranges.
#pragma once

#include <cstddef>
#include <utility>

#include <tenure/barriers.hpp>
#include <tenure/types/detail/standard_parts.hpp>

namespace tenure::detail {

// Moves [first, middle) behind [middle, last). Swaps the shorter part with an equal number of elements at the far end
// of the other part, where they are then in place, and goes on with the rest.
template <class T>
void rotate(T* first, T* middle, T* last) {
  if (first != middle && middle != last) announce(first, static_cast<std::size_t>(last - first));
  while (first != middle && middle != last) {
    if (middle - first <= last - middle) {
      T* const rest = std::swap_ranges(first, middle, middle);
      first = middle;
      middle = rest;
    } else {
      first += std::swap_ranges(middle, last, first) - first;
    }
  }
}

template <class Container, class Predicate>
std::size_t erase_values_if(Container& from, Predicate& predicate) {
  auto* to = from.begin();
  for (auto& value : from) {
    if (predicate(value)) {
      if (to == &value) announce(to, static_cast<std::size_t>(from.end() - to));  // the first one that goes
      continue;
    }
    if (to != &value) *to = std::move(value);
    ++to;
  }
  const auto count = static_cast<std::size_t>(from.end() - to);
  from.erase(to, from.end());
  return count;
}

}  // namespace tenure::detail
