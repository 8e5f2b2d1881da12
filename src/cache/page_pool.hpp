// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A bounded number of page buffers over the segments of a store: the part of the store that is in memory as it is stored.
// Whoever wants bytes gets copies of them, so one buffer is enough for everything. Which page goes when room is needed is
// decided by a clock.
//
// [cache.pool.committed] A page in the pool is what paged_segment::read would give: who commits tells it what has changed.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <tenure/rvm/paged_segment.hpp>

namespace tenure::cache {

class page_pool {
 public:
  // At least one.
  explicit page_pool(std::uint64_t pages);

  // Copies bytes of the segment, which must have them. Throws errc::damaged, which names the page.
  void read(const rvm::paged_segment& from, std::uint64_t offset, std::span<std::byte> into);
  // These bytes were committed.
  void committed(const rvm::paged_segment& to, std::uint64_t offset, std::span<const std::byte> bytes);

  [[nodiscard]] std::uint64_t pages() const { return frames_.size(); }
  [[nodiscard]] std::uint64_t hits() const { return hits_; }
  [[nodiscard]] std::uint64_t reads() const { return reads_; }
  // Throws if an invariant does not hold: reads every page in the pool again.
  void check() const;

 private:
  struct place {
    const rvm::paged_segment* segment = nullptr;  // nullptr: nothing
    std::uint64_t page = 0;
    bool operator==(const place&) const = default;
  };
  struct place_hash {
    std::size_t operator()(const place& p) const {
      return std::hash<const void*>()(p.segment) ^ (p.page * 0x9e3779b97f4a7c15);
    }
  };
  struct frame {
    place of;
    bool was_used = false;
  };
  [[nodiscard]] std::byte* bytes_of(std::size_t n) const { return bytes_.get() + n * rvm::paged_segment::page_length; }
  [[nodiscard]] std::size_t frame_with(const place& wanted);

  std::vector<frame> frames_;
  std::unique_ptr<std::byte[]> bytes_;
  std::unordered_map<place, std::size_t, place_hash> found_;
  std::size_t used_ = 0, hand_ = 0;  // frames that have ever been used
  // The frames that were asked for last, by the lowest bits of the page.
  std::array<std::size_t, 64> recent_{};
  std::uint64_t hits_ = 0, reads_ = 0;
};

}  // namespace tenure::cache
