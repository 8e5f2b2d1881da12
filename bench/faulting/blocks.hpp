// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Blocks that stand for objects: fault blocks until these are in memory, indirect blocks afterwards. In ordinary memory, where the
// program checks what it has reached; or in pages that nobody may read, where it is trapped [Hosking §4.2.1.3].
#pragma once

#include "faulting/resident.hpp"

namespace tenure::bench::faulting {

class ordinary_blocks {
 public:
  [[nodiscard]] resident* make(word identifier) {
    resident* const made = space_.allocate(0);
    made->first = identifier;
    return made;
  }
  // While blocks are made, or looked at by others than the program.
  struct opening {
    explicit opening(ordinary_blocks&) {}
  };

 private:
  object_space space_;
};

// One in a process at a time. The handler makes the object resident and lets the instruction begin again with its address: the
// only one that may read blocks is load_class().
class protected_blocks {
 public:
  // Called for the block that was read; returns the object.
  using fault_function = word (*)(void* who, word block);
  protected_blocks(fault_function on_fault, void* who);
  ~protected_blocks();
  protected_blocks(const protected_blocks&) = delete;
  protected_blocks& operator=(const protected_blocks&) = delete;

  [[nodiscard]] resident* make(word identifier);  // while they are open
  [[nodiscard]] bool contains(std::uintptr_t address) const { return address - begin_ < capacity; }
  // Nested ones count once.
  class opening {
   public:
    explicit opening(protected_blocks& of);
    ~opening();
    opening(const opening&) = delete;
    opening& operator=(const opening&) = delete;

   private:
    protected_blocks& of_;
  };
  [[nodiscard]] std::uint64_t traps() const { return traps_; }

 private:
  static constexpr std::size_t capacity = std::size_t{1} << 30;
  static void handle(int signal, void* information, void* context);
  void install();
  void allow(bool access);

  const fault_function on_fault_;
  void* const who_;
  std::uintptr_t begin_ = 0;
  std::size_t used_ = 0;
  unsigned open_ = 0;
  std::uint64_t traps_ = 0;
};

#if defined(__x86_64__)
// The class of what the word leads to. If that is a block, the word becomes the object's address: the handler knows that it is in
// rax.
[[nodiscard]] inline word load_class(word& from) {
  word found;
  asm volatile("movq (%0), %1" : "+a"(from), "=r"(found) : : "memory");
  return found;
}
#endif

}  // namespace tenure::bench::faulting
