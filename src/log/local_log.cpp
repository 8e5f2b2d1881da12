// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/local_log.hpp"

#include <algorithm>
#include <cassert>

#include "log/invariant.hpp"

namespace tenure::rvm {

local_log::local_log(os::disk& disk, const std::string& path, os::access access, counters& count)
    : disk_(disk), count_(count), path_(path), file_(log_file::open(disk, path, access)) {
  const status_block& status = file_->status();
  stamp_ = {status.log_id, status.generation, status.block_size};
  max_area_ = status.max_area;
  area_ = file_->area();
}

status_block local_log::status() const {
  const guard lock(status_mutex_);
  return file_->status();
}

log_window local_log::window() const noexcept {
  // The order matters: the head must never pass the tail that is read after it.
  const lsn head = head_.load(std::memory_order_acquire);
  return {head, tail_.load(std::memory_order_acquire)};
}

void local_log::look(lsn tail) {
  head_ = file_->status().head;
  tail_ = tail;
}

void local_log::start(lsn end, const total_slots& totals, const status_notes& notes) {
  const guard lock(status_mutex_);
  status_block status = file_->status();
  const bool clean = status.clean != 0;
  notes(status);
  status.head = status.tail = end;
  status.clean = 0;
  status.incompatible = features_ = feature_changes;
  // Groups left from a torn batch have an older generation than the groups written now [rvm.log.generation].
  stamp_.generation = ++status.generation;
  status.totals = totals;
  if (clean) {
    file_->set_status(status);
  } else {
    // The process that made the log may have been killed, or have failed, before the log's name was durable.
    file_->sync_name();
    file_->write_status(status);
  }
  status_is_stale_ = clean;
  head_ = tail_ = end;
}

void local_log::write_status(const guard&, lsn head) {
  assert(head <= tail_);
  status_block status = file_->status();
  status.head = head;
  status.tail = tail_;
  status.clean = 0;
  status.incompatible |= features_;
  if (notes_) notes_(status);
  try {
    // See start().
    if (status_is_stale_) file_->sync_name();
    file_->write_status(status);
    status_is_stale_.store(false, std::memory_order_release);
  } catch (const error& e) {
    throw error(
        errc::outcome_unknown,
        std::string("the log's status block could not be written; close this memory and open it again: ") + e.what());
  }
  ++count_.status_writes;
}

void local_log::note_use() {
  if (!status_is_stale_.load(std::memory_order_acquire)) return;
  const guard lock(status_mutex_);
  if (status_is_stale_) write_status(lock, head_);
}

bool local_log::append(lsn seen, std::span<const os::const_bytes> blocks) {
  if (tail_ != seen) return false;
  std::uint64_t length = 0;
  for (const os::const_bytes part : blocks) length += part.size();
  assert(!status_is_stale_ && length % block() == 0 && length <= area() - window().used());
  file_->write_durably(seen, blocks);
  tail_.store(seen + length, std::memory_order_release);
  return true;
}

void local_log::free_up_to(lsn head) {
  const guard lock(status_mutex_);
  assert(head >= head_);
  write_status(lock, head);
  head_.store(head, std::memory_order_release);
}

void local_log::require_feature(std::uint32_t feature) {
  const guard lock(status_mutex_);
  if ((features_ & feature) == feature) return;
  features_ |= feature;
  write_status(lock, head_);
}

void local_log::grow(std::uint64_t needed) {
  const guard lock(status_mutex_);
  assert(window().used() == 0 && needed <= max_area_);
  status_block status = file_->status();
  status.head = status.tail = tail_;
  status.clean = 0;
  status.area_length = std::min(round_up(std::max(needed + needed / 4, 2 * area_), block()), max_area_);
  ++status.totals[static_cast<std::size_t>(log_total::grown)];
  // The old log is empty, so after a crash either file is right. The name moves to the new one atomically.
  try {
    file_ = log_file::create(disk_, path_, status);
  } catch (const error& e) {
    if (file_->has_its_name()) throw;
    // The new log has the name already, durably or not. Appends to the old file could be lost.
    throw error(
        errc::outcome_unknown,
        std::string(
            "the log grew, but the new file's name could not be made durable; close this memory and open it again: ") +
            e.what());
  }
  area_ = file_->area();
  status_is_stale_.store(false, std::memory_order_release);
}

void local_log::check() const {
  const guard lock(status_mutex_);
  const log_window now = window();
  require_invariant(now.head <= now.tail && now.used() <= area(), "the log's live part fits into its area");
  require_invariant(now.head % block() == 0 && now.tail % block() == 0, "head and tail are at the borders of blocks");
  if (file_ == nullptr) return;
  const status_block& said = file_->status();
  // A crash finds everything that is live, because the stored window begins no later than the real one.
  require_invariant(said.head <= now.head && said.tail <= now.tail, "the status is not ahead of the log");
  require_invariant(file_->area() == area() && area() <= max_area_, "the area is that of the file");
}

void local_log::let_go() noexcept {
  const guard lock(status_mutex_);
  file_.reset();
}

void local_log::close(const total_slots& totals) {
  const guard lock(status_mutex_);
  assert(window().used() == 0);
  if (status_is_stale_) return;
  status_block status = file_->status();
  status.head = status.tail = tail_;
  status.clean = 1;
  status.incompatible = 0;
  status.totals = totals;
  if (notes_) notes_(status);
  file_->write_status(status);
}

}  // namespace tenure::rvm
