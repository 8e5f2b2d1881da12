// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Contents of a simulated file: blocks that are shared between copies and never changed once made (a write replaces
// them), so that copying an image costs a pointer a block and copies may be used in different threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "os/file.hpp"

namespace tenure::sim {

class image {
 public:
  static constexpr std::uint64_t block_bytes = 4096;
  using block = std::array<std::byte, block_bytes>;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  // New bytes read as zero, also after shrinking in between.
  void resize(std::uint64_t size);

  // The part of [offset, offset + from.size()) within the size is written, the rest ignored.
  void write(std::uint64_t offset, os::const_bytes from);
  // Bytes beyond the size are zero.
  void read(std::uint64_t offset, os::bytes into) const;

  // Whether something was ever written to the block that holds `offset`: otherwise it may be a hole on a real disk.
  [[nodiscard]] bool initialised(std::uint64_t offset) const { return get(offset / block_bytes) != nullptr; }

  // Copies all contents to the file descriptor, a new file of size 0, leaving holes for blocks never written.
  void copy_to(int descriptor) const;

 private:
  [[nodiscard]] const block* get(std::uint64_t number) const {
    return number < blocks_.size() ? blocks_[number].get() : nullptr;
  }

  std::uint64_t size_ = 0;
  std::vector<std::shared_ptr<const block>> blocks_;  // null: zero, never written; may be shorter than the size
};

// A 64-bit random sequence, the same on every platform and cheap to seed (splitmix64).
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // True `times` in `of` times.
  bool chance(std::uint64_t times, std::uint64_t of) { return below(of) < times; }

 private:
  std::uint64_t state_;
};

// pwrite and pread of everything, for memfds, which neither fail nor are interrupted except for lack of memory.
void write_fully(int descriptor, std::uint64_t offset, os::const_bytes from);
void read_fully(int descriptor, std::uint64_t offset, os::bytes into);

}  // namespace tenure::sim
