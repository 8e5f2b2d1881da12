// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/page_writer.hpp"

#include <algorithm>
#include <cstring>

namespace tenure::rewriting {

using rvm::redo_page;

page_writer::page_writer(rvm::segment& to, std::size_t most) : to_(to), most_(most), room_(most * redo_page) {
  held_.reserve(most);
}

void page_writer::write(std::uint64_t at, os::const_bytes bytes) {
  while (!bytes.empty()) {
    const std::uint64_t in_page = at % redo_page;
    const std::size_t length = std::min<std::size_t>(bytes.size(), redo_page - in_page);
    std::memcpy(page(at / redo_page) + in_page, bytes.data(), length);
    at += length;
    bytes = bytes.subspan(length);
  }
}

std::byte* page_writer::page(std::uint64_t number) {
  if (number == last_) return last_at_;
  auto found = held_.find(number);
  if (found == held_.end()) {
    if (held_.size() == most_) write_all();
    found = held_.emplace(number, held_.size()).first;
    const os::bytes room = os::bytes(room_).subspan(found->second * redo_page, redo_page);
    if (number < was_written_.size() && was_written_[number])
      to_.read(number * redo_page, room);
    else
      std::ranges::fill(room, std::byte{});
  }
  last_ = number;
  return last_at_ = room_.data() + found->second * redo_page;
}

void page_writer::write_all() {
  std::vector<std::pair<std::uint64_t, std::size_t>> pages(held_.begin(), held_.end());
  std::ranges::sort(pages);
  constexpr std::size_t most_at_once = 256;
  std::vector<std::byte> together;
  together.reserve(most_at_once * redo_page);
  for (std::size_t n = 0; n < pages.size();) {
    const std::uint64_t first = pages[n].first;
    together.clear();
    for (std::uint64_t count = 0; n < pages.size() && count < most_at_once && pages[n].first == first + count;
         ++n, ++count) {
      const auto from = room_.begin() + static_cast<std::ptrdiff_t>(pages[n].second * redo_page);
      together.insert(together.end(), from, from + redo_page);
    }
    to_.write_pages(first, together);
    bytes_written_ += together.size();
  }
  if (!pages.empty() && pages.back().first >= was_written_.size()) was_written_.resize(pages.back().first + 1);
  for (const auto& [number, place] : pages) was_written_[number] = true;
  held_.clear();
  last_ = ~std::uint64_t{0};
}

void page_writer::finish() {
  write_all();
  to_.finish_writes();
}

}  // namespace tenure::rewriting
