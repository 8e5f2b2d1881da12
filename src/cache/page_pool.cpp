// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/page_pool.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "log/invariant.hpp"

namespace tenure::cache {

namespace {
constexpr std::uint64_t page_length = rvm::paged_segment::page_length;
}

page_pool::page_pool(std::uint64_t pages)
    : frames_(static_cast<std::size_t>(pages)), bytes_(new std::byte[frames_.size() * page_length]) {
  assert(pages != 0);
}

void page_pool::read(const rvm::paged_segment& from, std::uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const std::uint64_t in_page = offset % page_length;
    const std::size_t length = std::min<std::size_t>(into.size(), page_length - in_page);
    std::memcpy(into.data(), bytes_of(frame_with({&from, offset / page_length})) + in_page, length);
    into = into.subspan(length);
    offset += length;
  }
}

std::size_t page_pool::frame_with(const place& wanted) {
  std::size_t& recent = recent_[wanted.page % recent_.size()];
  if (frames_[recent].of == wanted) {
    ++hits_;
    frames_[recent].was_used = true;
    return recent;
  }
  if (const auto known = found_.find(wanted); known != found_.end()) {
    ++hits_;
    frames_[known->second].was_used = true;
    return recent = known->second;
  }
  std::size_t n = used_;
  if (used_ == frames_.size()) {
    for (; frames_[hand_].was_used; hand_ = (hand_ + 1) % frames_.size()) frames_[hand_].was_used = false;
    n = hand_;
    hand_ = (hand_ + 1) % frames_.size();
    found_.erase(frames_[n].of);
    frames_[n] = {};
  } else {
    ++used_;
  }
  ++reads_;
  wanted.segment->read(wanted.page, {bytes_of(n), page_length});  // if it throws, the frame has nothing
  found_.emplace(wanted, n);
  frames_[n] = {wanted, true};
  return recent = n;
}

void page_pool::committed(const rvm::paged_segment& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t in_page = offset % page_length;
    const std::size_t length = std::min<std::size_t>(bytes.size(), page_length - in_page);
    if (const auto known = found_.find({&to, offset / page_length}); known != found_.end())
      std::memcpy(bytes_of(known->second) + in_page, bytes.data(), length);
    bytes = bytes.subspan(length);
    offset += length;
  }
}

void page_pool::check() const {
  for (std::size_t n = 0; n < frames_.size(); ++n) {
    const place& of = frames_[n].of;
    if (of.segment == nullptr) continue;
    const auto known = found_.find(of);
    rvm::require_invariant(known != found_.end() && known->second == n, "a page of the pool is found in its frame");
    std::array<std::byte, page_length> now;
    of.segment->read(of.page, now);
    rvm::require_invariant(std::memcmp(now.data(), bytes_of(n), page_length) == 0,
                           "a page of the pool is as it is committed");
  }
  rvm::require_invariant(found_.size() <= used_, "each page of the pool has a frame");
}

}  // namespace tenure::cache
