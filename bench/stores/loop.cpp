// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Compiled with FORM=bare, inline or outlined.
#include "stores/loop.hpp"

#define JOINED(a, b) a##b
#define NAME(function, form) JOINED(function, form)

namespace tenure::bench::stores {

void NAME(swap_, FORM)(item* const* all, std::size_t count) {
  for (std::size_t n = 0; n < count; ++n) {
    item& one = *all[n];
    const std::uint64_t a = one.a;
    one.a = one.b;
    one.b = a;
  }
}

std::uint64_t NAME(sum_, FORM)(item* const* all, std::size_t count) {
  std::uint64_t sum = 0;
  for (std::size_t n = 0; n < count; ++n) sum += all[n]->a;
  return sum;
}

}  // namespace tenure::bench::stores
