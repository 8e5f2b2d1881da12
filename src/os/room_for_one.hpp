// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Room for one element more, before something is done that must not fail. reserve(size() + 1) would move all elements each time.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tenure::os {

template <class Vector>
void reserve_one_more(Vector& list) {
  constexpr std::size_t least = 4;
  if (list.size() == list.capacity()) list.reserve(std::max(least, 2 * list.size()));
}

}  // namespace tenure::os
