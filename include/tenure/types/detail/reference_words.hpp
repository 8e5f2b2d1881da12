// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Classes that are stored as a T* is, though they are no pointers in memory: cache::ref. The descriptions of types have them
// as pointers, and their names say T*, so that a class has one stored type, whichever of the two its members are.
#pragma once

namespace tenure::detail {

// Specialize it for such a class: is = true, and target is T.
template <class R>
struct reference_word {
  static constexpr bool is = false;
};

}  // namespace tenure::detail
