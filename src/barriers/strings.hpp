// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Announcing what a function writes that copies strings, of characters of any width.
#pragma once

#include <cstddef>

#include "barriers/watched.hpp"

namespace tenure::barriers {

template <class Character>
[[nodiscard]] std::size_t length_of(const Character* text, std::size_t most = ~std::size_t{0}) {
  std::size_t length = 0;
  while (length < most && text[length] != 0) ++length;
  return length;
}

// Lengths are counted only for watched memory.
template <class Character>
void before_copy(const Character* to, const Character* from, std::size_t most = ~std::size_t{0}) {
  if (may_be_watched(to)) before_store(to, (length_of(from, most) + 1) * sizeof *to);
}
template <class Character>
void before_append(const Character* to, const Character* from, std::size_t most = ~std::size_t{0}) {
  if (may_be_watched(to)) before_copy(to + length_of(to), from, most);
}

}  // namespace tenure::barriers
