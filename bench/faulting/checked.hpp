// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The operations in C++, with a residency check at each dereference.
#pragma once

#include "faulting/object_memory.hpp"
#include "faulting/visits.hpp"

namespace tenure::bench::faulting {

template <class Memory>
class checked_program {
 public:
  explicit checked_program(Memory& memory) : memory_(memory) {}

  [[nodiscard]] visits look_up(std::span<const int> ids) {
    visits done;
    for (const int id : ids) visit(memory_.reach(find(id)).template as<part>(), done);
    return done;
  }
  [[nodiscard]] visits traverse(int from, int hops) {
    visits done;
    traverse(find(from), hops, done);
    return done;
  }

 private:
  [[nodiscard]] word find(int id) {
    word at = word_of(memory_.root().template as<database>().index);
    for (;;) {
      const auto& node = memory_.reach(at).template as<index_node>();
      std::size_t n = 0;
      while (static_cast<int>(n) + 1 < node.count && node.lowest[n + 1] <= id) ++n;
      if (node.height == 0) return word_of(node.parts[n]);
      at = word_of(node.down[n]);
    }
  }
  static void visit(const part& at, visits& done) { done.visit(at.x, at.y, word_of(at.type), at.build); }
  void traverse(word from, int hops, visits& done) {
    const auto& at = memory_.reach(from).template as<part>();
    visit(at, done);
    if (hops == 0) return;
    for (const auto& next : at.to) traverse(word_of(next), hops - 1, done);
  }

  Memory& memory_;
};

}  // namespace tenure::bench::faulting
