// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where a segment's data and the checksums of its pages are in its file.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "segments/format.hpp"

namespace tenure::rvm {

class segment_layout {
 public:
  static constexpr std::uint64_t checksum_block = 4096;
  static constexpr std::uint64_t checksums_per_block = checksum_block / sizeof(std::uint32_t);

  segment_layout() = default;
  // As in segment_header.
  segment_layout(std::uint64_t data_offset, std::uint64_t first_piece)
      : data_offset_(data_offset), first_piece_(first_piece) {}
  explicit segment_layout(const segment_header& h) : segment_layout(h.data_offset, h.first_piece) {}

  // The length of the first piece for a new segment; 0: it will never grow, and is one piece.
  static constexpr std::uint64_t first_piece_for(std::uint64_t length, std::uint64_t max_length) {
    return max_length == length ? 0 : std::bit_ceil(std::max(length, segment_alignment));
  }
  static constexpr std::uint64_t data_offset_for(std::uint64_t max_length, std::uint64_t first_piece) {
    return segment_checksums_offset + table_room(first_piece != 0 ? first_piece : max_length);
  }

  // Bytes that are one after the other in the file.
  struct part {
    std::uint64_t at;      // in the file
    std::uint64_t length;  // at most what was asked for
  };
  [[nodiscard]] part find(std::uint64_t offset, std::uint64_t length) const {
    const piece p = piece_of(offset);
    return {p.data_at + (offset - p.begin), std::min(length, p.end - offset)};
  }
  // Calls f(part, done) for each part of these bytes; `done`: bytes before it.
  template <class F>
  void for_each_part(std::uint64_t offset, std::uint64_t length, F&& f) const {
    for (std::uint64_t done = 0; done < length;) {
      const part next = find(offset + done, length - done);
      f(next, done);
      done += next.length;
    }
  }

  // A page's checksum: the block that has it, and its number there.
  struct checksum_place {
    std::uint64_t block;  // offset in the file
    std::size_t index;
  };
  [[nodiscard]] checksum_place checksum_of(std::uint64_t page) const {
    const piece p = piece_of(page * redo_page);
    const std::uint64_t in_piece = page - p.begin / redo_page;
    return {p.table_at + in_piece / checksums_per_block * checksum_block,
            static_cast<std::size_t>(in_piece % checksums_per_block)};
  }

  // The length of the file of a segment with so much data.
  [[nodiscard]] std::uint64_t file_length(std::uint64_t length) const {
    if (length == 0) return data_offset_;
    const piece last = piece_of(length - 1);
    return last.data_at + (length - last.begin);
  }

  // What growth from `old` to `length` bytes of data needs: calls f(offset in the file, bytes).
  template <class F>
  void for_each_new_part(std::uint64_t old, std::uint64_t length, F&& f) const {
    const auto table_length = [](std::uint64_t data) {
      return round_up(data / redo_page * sizeof(std::uint32_t), checksum_block);
    };
    for (std::uint64_t at = old; at < length;) {
      const piece p = piece_of(at);
      const std::uint64_t end = std::min(length, p.end), has = table_length(at - p.begin),
                          needs = table_length(end - p.begin);
      if (needs > has) f(p.table_at + has, needs - has);
      f(p.data_at + (at - p.begin), end - at);
      at = end;
    }
  }

 private:
  struct piece {
    std::uint64_t begin, end;         // of the data
    std::uint64_t table_at, data_at;  // in the file
  };
  static constexpr std::uint64_t table_room(std::uint64_t data) {
    return round_up(data / redo_page * sizeof(std::uint32_t), segment_alignment);
  }
  // The second piece is as long as the first, and each one after it as long as all before it.
  [[nodiscard]] piece piece_of(std::uint64_t offset) const {
    piece p{0, first_piece_, segment_checksums_offset, data_offset_};
    if (first_piece_ == 0) p.end = ~std::uint64_t{0};
    while (offset >= p.end) {
      const std::uint64_t length = p.end;
      p.table_at = p.data_at + (p.end - p.begin);
      p.data_at = p.table_at + table_room(length);
      p.begin = p.end;
      p.end += length;
    }
    return p;
  }

  std::uint64_t data_offset_ = 0, first_piece_ = 0;
};

}  // namespace tenure::rvm
