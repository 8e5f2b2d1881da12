// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Writes a new segment piece by piece. Pages are collected in memory and written in the order of their places, many at a
// time. A page may be written to again later, but that costs reading it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "segments/segment.hpp"

namespace tenure::rewriting {

class page_writer {
 public:
  // `most`: pages that are held in memory.
  page_writer(rvm::segment& to, std::size_t most);

  void write(std::uint64_t at, os::const_bytes bytes);
  // Durable on return.
  void finish();
  // Of pages that were written, each time they were.
  [[nodiscard]] std::uint64_t bytes_written() const { return bytes_written_; }

 private:
  [[nodiscard]] std::byte* page(std::uint64_t number);
  void write_all();

  rvm::segment& to_;
  const std::size_t most_;
  std::vector<std::byte> room_;                          // for `most_` pages
  std::unordered_map<std::uint64_t, std::size_t> held_;  // page number: its place in room_
  std::uint64_t last_ = ~std::uint64_t{0};               // the page that was used last
  std::byte* last_at_ = nullptr;
  std::vector<bool> was_written_;
  std::uint64_t bytes_written_ = 0;
};

}  // namespace tenure::rewriting
