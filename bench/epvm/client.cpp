// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "epvm/client.hpp"

#include <stdexcept>

namespace tenure::bench::epvm {

client::client(const std::filesystem::path& directory, std::size_t pool_pages)
    : memory_((directory / "store" / "log").string(),
              [] {
                rvm::options how;
                how.mode = rvm::open_mode::open;
                return how;
              }()),
      database_(memory_, memory_.members().at(0), bookkeeping_, false, 0),
      home_(database_.stored.home()),
      frames_(pool_pages),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(pool_pages * page_length)) {
  if (pool_pages == 0) throw std::invalid_argument("the pool needs a page");
}

std::byte* client::pin(std::uint64_t page) {
  if (const auto known = found_.find(page); known != found_.end()) {
    frame& of = frames_[known->second];
    ++of.pins;
    of.was_used = true;
    return bytes_of(known->second);
  }
  const std::size_t n = find_victim();
  frame& of = frames_[n];
  found_.erase(of.page);
  of = {};
  database_.stored.segment().read(page, {bytes_of(n), page_length});
  ++reads_;
  of = {page, 1, true, false};
  found_.emplace(page, n);
  return bytes_of(n);
}

void client::unpin(std::uint64_t page) { --frames_[found_.at(page)].pins; }

std::size_t client::find_victim() {
  for (std::size_t looked = 0; looked <= 2 * frames_.size(); ++looked) {
    const std::size_t n = hand_;
    hand_ = (hand_ + 1) % frames_.size();
    frame& of = frames_[n];
    if (of.pins != 0) continue;
    if (!of.was_used) return n;
    of.was_used = false;
  }
  throw std::runtime_error("all buffers of the pool are pinned; give it more pages");
}

void client::log_update(std::uint64_t page, std::size_t from, std::size_t length) {
  const std::size_t n = found_.at(page);
  if (!frames_[n].is_dirty) {
    frames_[n].is_dirty = true;
    ++frames_[n].pins;
    dirty_.push_back(n);
  }
  const std::byte* const changed = bytes_of(n) + from;
  logged_.emplace_back(changed, changed + length);
  open_.change(database_.stored.segment(), page * page_length + from, logged_.back());
  log_bytes_ += length;
}

void client::begin() { open_ = memory_.begin(); }

void client::commit() {
  open_.commit(rvm::commit_mode::flush);
  logged_.clear();
  for (const std::size_t n : dirty_) {
    frames_[n].is_dirty = false;
    --frames_[n].pins;
  }
  dirty_.clear();
}

}  // namespace tenure::bench::epvm
