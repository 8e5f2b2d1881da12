// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Buffers for groups that are being filled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "records/format.hpp"

namespace tenure::rvm {

class segment;

struct group_slab;

// A group while it is being filled.
struct group_buffer {
  group_buffer(group_slab* slab, std::byte* memory) : of(slab), bytes(memory) { clear(); }
  void clear();

  group_slab* of;
  std::byte* bytes;    // group_length() bytes of memory
  std::uint32_t used;  // header included
  std::uint32_t records;
  std::uint32_t last_record;  // length of the last record, 0 if none
  bool is_prepared;           // its changes are those of a prepared transaction
  std::vector<segment*> dictionary;
  std::vector<std::uint32_t> named_at;  // offsets of their records
};

// A pool of buffers that are reused, so that a steady flow of commits touches no new memory. The buffers lie in slabs
// of a few huge pages; the first slab has ordinary ones, because small commits touch few of them. When all buffers of a
// slab are free, the slab goes back to the kernel if the pool has more than `kept` bytes. Thread-safe.
class group_pool {
 public:
  explicit group_pool(std::uint32_t group_length = max_group, std::size_t kept = 16 << 20);
  ~group_pool();
  group_pool(const group_pool&) = delete;
  group_pool& operator=(const group_pool&) = delete;
  std::unique_ptr<group_buffer> take();
  void give_back(std::unique_ptr<group_buffer> buffer) noexcept;

  // The size of a group's buffer in bytes, header included.
  [[nodiscard]] std::uint32_t group_length() const { return group_length_; }
  // The bytes of memory that the pool has.
  [[nodiscard]] std::size_t memory_used() const;
  // Throws if an invariant does not hold.
  void check() const;

 private:
  const std::uint32_t group_length_;
  const std::size_t slab_length_, kept_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<group_slab>> slabs_;
  std::vector<group_slab*> with_free_;  // capacity: slabs_
  std::size_t all_free_ = 0;            // number of slabs with no buffer in use
};

}  // namespace tenure::rvm
