// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/local_log.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "log/invariant.hpp"
#include "log/log_hold.hpp"

namespace tenure::rvm {

void begin_first_generation(manifest& of) {
  of.clean = 0;
  of.generation = 1;
  of.incompatible = feature_changes;
}

local_log::local_log(os::disk& disk, const std::string& path, os::access access, counters& count, copied_files copied)
    : disk_(disk),
      count_(count),
      path_(path),
      files_(log_files::open(disk, path, access)),
      size_(files_->status().size),
      max_size_(files_->status().max_size) {
  if (const std::string copy = files_->find_copy(); !copy.empty() && copied == copied_files::refuse)
    throw error(errc::copied, copy +
                                  ": is a copy, and the log was in use when it was made, so that its files may be of "
                                  "several moments; make a copy of a closed log, or a backup; or use `tenure adopt " +
                                  path + "`, which checks everything, and then goes on with the files as they are");
  if (copied == copied_files::adopt) {
    is_adopted_ = true;
    manifest adopted = files_->status();
    files_->note_places(adopted);
    files_->set_status(std::move(adopted));
  }
  begin();
}

local_log::local_log(os::disk& disk, const std::string& path, std::unique_ptr<log_files> made, counters& count)
    : disk_(disk),
      count_(count),
      path_(path),
      files_(std::move(made)),
      size_(files_->status().size),
      max_size_(files_->status().max_size),
      is_new_(true) {
  begin();
}

void local_log::begin() {
  const manifest& status = files_->status();
  stamp_ = {status.log_id, status.generation, status.block_size};
  head_ = tail_ = status.head;
  const guard lock(status_mutex_);
  note_space(lock);
}

manifest local_log::status() const {
  const guard lock(status_mutex_);
  return files_->status();
}

log_window local_log::window() const noexcept {
  // The order matters: the head must never pass the tail that is read after it.
  const lsn head = head_.load(std::memory_order_acquire);
  return {head, tail_.load(std::memory_order_acquire)};
}

void local_log::note_space(const guard&) {
  length_ = files_->length();
  end_ = files_->end();
}

void local_log::look(lsn tail) {
  head_ = files_->status().head;
  tail_ = tail;
}

void local_log::keep_adopted() {
  const guard lock(status_mutex_);
  if (is_adopted_) files_->write_status(files_->status());
}

void local_log::start(lsn head, lsn tail, const total_slots& totals, const status_notes& notes) {
  const guard lock(status_mutex_);
  manifest status = files_->status();
  const bool clean = status.clean != 0;
  if (is_new_ && !clean) {  // it was made for use at once: all of this is in its manifest
    features_ = status.incompatible;
    status.totals = totals;
    return files_->set_status(status);
  }
  files_->note_places(status);
  notes(status);
  status.head = head;
  status.tail = tail;
  status.clean = 0;
  status.incompatible = features_ = feature_changes;
  // Groups left from a torn batch have an older generation than the groups written now [rvm.log.generation].
  stamp_.generation = ++status.generation;
  status.totals = totals;
  head_ = head;
  tail_ = tail;
  status_is_stale_ = clean;
  if (clean) {
    files_->set_status(status);
    return note_space(lock);
  }
  // The process that had the files may have been killed, or have failed, before their names and headers were durable.
  files_->make_names_durable();
  files_->write_status(status);
  files_->remove_left_overs();
  remove_dead_holds(disk_, path_);
  reclaim(lock);
}

manifest local_log::next_status(const guard&, lsn head) const {
  assert(head <= tail_);
  manifest status = files_->status();
  status.head = head;
  status.tail = tail_;
  status.clean = 0;
  status.incompatible |= features_;
  if (notes_) notes_(status);
  return status;
}

void local_log::write_status(const guard& lock, lsn head) {
  try {
    // See start().
    if (status_is_stale_) files_->make_names_durable();
    files_->write_status(next_status(lock, head));
    status_is_stale_.store(false, std::memory_order_release);
  } catch (const error& e) {
    throw error(
        errc::outcome_unknown,
        std::string("the log's manifest could not be written; close this memory and open it again: ") + e.what());
  }
  ++count_.status_writes;
}

template <class F>
void local_log::change_files(const guard& lock, F&& f) {
  try {
    f();
  } catch (const error& e) {
    note_space(lock);
    throw error(
        errc::outcome_unknown,
        std::string("a file of the log could not be written; close this memory and open it again: ") + e.what());
  } catch (...) {
    note_space(lock);
    throw;
  }
  note_space(lock);
}

void local_log::reclaim(const guard& lock) {
  change_files(lock, [&] {
    if (!files_->may_reclaim(head_)) return;
    const lsn needed = std::min<lsn>(head_, held_from(disk_, path_));
    (void)replace_long(needed);
    files_->reclaim(needed, usual_size(), next_status(lock, head_));
  });
}

bool local_log::replace_long(lsn needed) {
  try {
    return files_->replace_long(needed, usual_size());
  } catch (const error& e) {
    if (e.code() == errc::outcome_unknown) throw;
    return false;  // there is no space for another file, and the long one is used again
  }
}

void local_log::note_use() {
  if (!status_is_stale_.load(std::memory_order_acquire)) return;
  const guard lock(status_mutex_);
  if (!status_is_stale_) return;
  write_status(lock, head_);
  reclaim(lock);
  if (length_ <= usual_size() || head_ != tail_ || held_from(disk_, path_) < tail_) return;
  change_files(lock, [&] {
    if (replace_long(files_->end())) files_->rewind(tail_, usual_size(), next_status(lock, head_));
  });
}

bool local_log::append(lsn seen, std::span<const os::const_bytes> blocks) {
  if (tail_ != seen) return false;
  std::uint64_t length = 0;
  for (const os::const_bytes part : blocks) length += part.size();
  assert(!status_is_stale_ && length % block() == 0 && length <= room());
  files_->write_durably(seen, blocks);
  tail_.store(seen + length, std::memory_order_release);
  return true;
}

void local_log::free_up_to(lsn head) {
  const guard lock(status_mutex_);
  assert(head >= head_);
  write_status(lock, head);
  head_.store(head, std::memory_order_release);
  try {
    reclaim(lock);
  } catch (const std::bad_alloc&) {  // the next call does it: what is freed is so already
  }
}

bool local_log::is_held() const { return held_from(disk_, path_) != ~lsn{0}; }

std::uint64_t local_log::held() const {
  const lsn from = held_from(disk_, path_), head = head_;
  const guard lock(status_mutex_);
  return from < head && files_ != nullptr ? head - std::min(std::max(from, files_->begin()), head) : 0;
}

void local_log::require_feature(std::uint32_t feature) {
  const guard lock(status_mutex_);
  if ((features_ & feature) == feature) return;
  features_ |= feature;
  try {
    write_status(lock, head_);
  } catch (...) {
    features_ &= ~feature;
    throw;
  }
}

lsn local_log::head_for(std::uint64_t bytes) const {
  const guard lock(status_mutex_);
  return files_->head_for(bytes, tail_);
}

void local_log::change_list(const std::function<void(manifest&)>& change) {
  const guard lock(status_mutex_);
  manifest next = files_->status(), before = next;
  change(next);
  files_->set_status(std::move(next));
  try {
    write_status(lock, head_);
  } catch (const std::bad_alloc&) {  // nothing was written
    files_->set_status(std::move(before));
    throw;
  }
}

void local_log::note_in_list(const std::function<void(manifest&)>& change) {
  const guard lock(status_mutex_);
  manifest next = files_->status();
  change(next);
  files_->set_status(std::move(next));
}

void local_log::rewind() {
  const guard lock(status_mutex_);
  assert(window().used() == 0 && !status_is_stale_);
  change_files(lock, [&] {
    // Until now the manifest may have an older head.
    write_status(lock, tail_);
    head_ = tail_.load();
    if (held_from(disk_, path_) < tail_) return;  // looked for when the manifest has the head: see log_hold::take
    (void)replace_long(files_->end());
    files_->rewind(tail_, usual_size(), next_status(lock, head_));
  });
}

bool local_log::keep(std::uint64_t bytes) {
  if (bytes <= size_) return length_ >= bytes;  // its usual size it does not give back
  const guard lock(status_mutex_);
  if (kept_ < bytes) kept_ = bytes;
  return length_ >= bytes;
}

void local_log::let_shrink() noexcept { kept_ = 0; }

bool local_log::extend(std::uint64_t capacity) {
  const guard lock(status_mutex_);
  assert(!status_is_stale_);
  if (length_ >= capacity) return false;
  try {
    files_->extend(capacity, next_status(lock, head_));
  } catch (...) {  // some may be there
    note_space(lock);
    throw;
  }
  note_space(lock);
  return true;
}

void local_log::check() const {
  const guard lock(status_mutex_);
  if (files_ == nullptr) return;
  const log_window live = window();
  require_invariant(live.head <= live.tail && live.tail <= end_, "the log's live part is in its files");
  require_invariant(live.head % block() == 0 && live.tail % block() == 0, "head and tail are at the borders of blocks");
  require_invariant(live.head == live.tail || files_->begin() <= live.head, "the files begin before the head");
  const manifest& said = files_->status();
  // A crash finds everything that is live, because the stored window begins no later than the real one.
  require_invariant(said.head <= live.head && said.tail <= live.tail, "the manifest is not ahead of the log");
  require_invariant(end_ == files_->end() && length_ == files_->length(), "the space is that of the files");
  files_->check();
}

void local_log::let_go() noexcept {
  const guard lock(status_mutex_);
  files_.reset();
}

void local_log::close(const total_slots& totals) {
  const guard lock(status_mutex_);
  assert(window().used() == 0);
  if (status_is_stale_) return;
  manifest status = next_status(lock, tail_);
  status.clean = 1;
  status.incompatible = 0;
  status.totals = totals;
  files_->write_status(status);
}

}  // namespace tenure::rvm
