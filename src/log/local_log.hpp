// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The log in a file of this machine. It owns the file, the window (head and tail), the status, the growth and the clean
// close.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "log/counters.hpp"
#include "log/durable_log.hpp"
#include "log/log_file.hpp"

namespace tenure::rvm {

class local_log final : public durable_log {
 public:
  // Adds to the status what the layers above keep there. Called with the status lock held.
  using status_notes = std::function<void(status_block&)>;

  // Opens, validates and locks the file. The live part is not known before start() or look().
  local_log(os::disk& disk, const std::string& path, os::access access, counters& count);

  // The status that the file has, or will have at the first append.
  [[nodiscard]] status_block status() const;
  // The last batch may be in the page cache only, if its writer was killed before the sync. Writes it once more,
  // durably.
  void make_durable(lsn from, lsn to) { file_->make_durable(from, to); }
  // Recovery needs nothing before `end` any more. Starts a new, empty generation of the log there, with these totals.
  // Durable on return; if the file was closed cleanly, durable at the first append.
  void start(lsn end, const total_slots& totals, const status_notes& notes);
  // Opens the window for reading only. The window ends at this tail.
  void look(lsn tail);
  // From now on each status gets these notes.
  void keep_notes(status_notes notes) { notes_ = std::move(notes); }
  // Makes the file say that the log was closed cleanly. The log must be empty.
  void close(const total_slots& totals);
  // Closes the file and so releases its lock. Nothing may be called afterwards.
  void let_go() noexcept;
  // Throws if an invariant does not hold.
  void check() const;

  [[nodiscard]] const identity& id() const override { return stamp_.log_id; }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::uint32_t block() const override { return stamp_.block_size; }
  [[nodiscard]] std::uint64_t area() const override { return area_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t file_offset(lsn at) const override { return file_->file_offset(at); }
  void read(lsn at, os::bytes into) const override { file_->read(at, into); }
  void read_ahead(lsn at, std::uint64_t length) const noexcept override { file_->read_ahead(at, length); }

  [[nodiscard]] log_window window() const noexcept override;
  [[nodiscard]] const log_stamp& stamp() const noexcept override { return stamp_; }
  [[nodiscard]] std::uint64_t max_area() const noexcept override { return max_area_; }
  void note_use() override;
  [[nodiscard]] bool append(lsn seen, std::span<const os::const_bytes> blocks) override;
  void free_up_to(lsn head) override;
  void require_feature(std::uint32_t feature) override;
  void grow(std::uint64_t needed) override;

 private:
  using guard = std::scoped_lock<std::mutex>;
  void write_status(const guard&, lsn head);

  os::disk& disk_;
  counters& count_;
  const std::string path_;
  log_stamp stamp_;
  std::uint64_t max_area_;
  std::atomic<std::uint64_t> area_;
  std::atomic<lsn> head_{0}, tail_{0};  // the head is stored with the status lock held

  mutable std::mutex status_mutex_;  // the status lock; guards the members below
  std::unique_ptr<log_file> file_;   // replaced by grow(), which excludes readers
  status_notes notes_;
  std::atomic<bool> status_is_stale_{false};  // the file says that it was closed cleanly, which is no longer true
  std::uint32_t features_ = 0;                // the features that the live part needs
};

}  // namespace tenure::rvm
