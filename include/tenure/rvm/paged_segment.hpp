// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments that are read and changed page by page, without being mapped: for caches whose memory is their own, where the
// program decides which pages are in it [White & DeWitt 1992, Hosking 1995 ch. 3].
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <tenure/error.hpp>

namespace tenure::rvm {

class paged_state;

#pragma GCC visibility push(default)  // libtenure.so exports it

class memory;
class transaction;

// A segment that is open for pages. While it is, no region of it can be mapped. Moves; closes when destroyed unless it has
// uncommitted changes, in which case it stays open until the memory is closed. Any thread may read; changes are made in
// transactions (transaction::change).
class paged_segment {
 public:
  // Bytes of a page, whatever the pages of the host.
  static constexpr std::size_t page_length = 4096;

  paged_segment() = default;
  ~paged_segment();
  paged_segment(paged_segment&&) noexcept = default;
  paged_segment& operator=(paged_segment&& other) noexcept;

  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  [[nodiscard]] const std::string& segment_path() const;
  // Bytes in the segment: whole pages. Grows with memory::grow_segment.
  [[nodiscard]] std::uint64_t size() const;

  // Copies consecutive whole pages, from this one on, as they are committed: lazy commits count. Each page is the state
  // after some commit; two pages may be of different commits if others commit meanwhile. What comes from the file is
  // compared with the page's checksum.
  // errc::misaligned: not whole pages. errc::segment_too_short: they are not in the segment. errc::damaged: names the page;
  // the pages before it were copied.
  void read(std::uint64_t page, std::span<std::byte> into) const;

  // As region::allocate: space on the disk, durably, for bytes that were cleared. Offsets count from the segment's start.
  void allocate(std::uint64_t offset, std::uint64_t length);

  // Writes committed changes to the segment and closes it. Throws errc::region_busy, and changes nothing, while an open
  // transaction has changed it.
  void close();

 private:
  friend class memory;
  friend class transaction;
  explicit paged_segment(std::shared_ptr<paged_state> state);
  [[nodiscard]] paged_state& require_open() const;
  std::shared_ptr<paged_state> state_;
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
