// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The log in files of this machine. It owns the files, the window (head and tail), the manifest, the growth and the
// clean close.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "log/counters.hpp"
#include "log/durable_log.hpp"
#include "log/log_files.hpp"

namespace tenure::rvm {

// What the manifest of a new log says that is used at once, by the process that makes it.
void begin_first_generation(manifest& of);

class local_log final : public durable_log {
 public:
  // Adds to the manifest what the layers above keep there. Called with the status lock held.
  using status_notes = std::function<void(manifest&)>;

  // Opens, validates and locks the files. The live part is not known before start() or look(). Refuses a copy of files
  // that were in use, unless `adopt` says that somebody has looked at them.
  local_log(os::disk& disk, const std::string& path, os::access access, counters& count, copied_files copied);
  // Goes on with files that this process has just made, and that are durable with their names.
  local_log(os::disk& disk, const std::string& path, std::unique_ptr<log_files> made, counters& count);

  // The manifest that the file has, or will have at the first append.
  [[nodiscard]] manifest status() const;
  // The bytes of all files.
  // The last batch may be in the page cache only, if its writer was killed before the sync. Writes it once more,
  // durably.
  void make_durable(lsn from, lsn to) { files_->make_durable(from, to); }
  // Recovery needs nothing before `head` any more. Starts a new generation of the log at `tail`, with these totals; it is empty
  // unless something is kept. Durable on return; if the log was closed cleanly, durable at the first append.
  void start(lsn head, lsn tail, const total_slots& totals, const status_notes& notes);
  // If a copy was adopted, it need not be adopted again, whatever becomes of this opening. Durable on return.
  void keep_adopted();
  // Opens the window for reading only. The window ends at this tail.
  void look(lsn tail);
  // Changes the manifest's list of segments. Durable on return.
  void change_list(const std::function<void(manifest&)>& change);
  // The same, but durable only with what makes the manifest durable next.
  void note_in_list(const std::function<void(manifest&)>& change);
  // From now on each status gets these notes.
  void keep_notes(status_notes notes) { notes_ = std::move(notes); }
  // Makes the manifest say that the log was closed cleanly. The log must be empty.
  void close(const total_slots& totals);
  // Closes the files and so releases the lock. Nothing may be called afterwards.
  void let_go() noexcept;
  // Throws if an invariant does not hold.
  void check() const;

  [[nodiscard]] const identity& id() const override { return stamp_.log_id; }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::uint32_t block() const override { return stamp_.block_size; }
  [[nodiscard]] lsn end() const override { return end_; }
  [[nodiscard]] std::string place(lsn at) const override { return files_->place(at); }
  void read(lsn at, os::bytes into) const override { files_->read(at, into); }
  void read_ahead(lsn at, std::uint64_t length) const noexcept override { files_->read_ahead(at, length); }

  [[nodiscard]] log_window window() const noexcept override;
  [[nodiscard]] const log_stamp& stamp() const noexcept override { return stamp_; }
  [[nodiscard]] std::uint64_t length() const noexcept override { return length_; }
  [[nodiscard]] std::uint64_t capacity() const noexcept override { return std::max(size_, length_.load()); }
  [[nodiscard]] std::uint64_t max_capacity() const noexcept override { return max_size_; }
  [[nodiscard]] std::uint64_t room() const noexcept override { return end_ - tail_; }
  [[nodiscard]] lsn head_for(std::uint64_t bytes) const override;
  void note_use() override;
  [[nodiscard]] bool append(lsn seen, std::span<const os::const_bytes> blocks) override;
  void free_up_to(lsn head) override;
  [[nodiscard]] bool is_held() const override;
  // The bytes before the head that are kept because somebody holds them.
  [[nodiscard]] std::uint64_t held() const;
  void require_feature(std::uint32_t feature) override;
  void rewind() override;
  [[nodiscard]] bool keep(std::uint64_t bytes) override;
  void let_shrink() noexcept override;
  bool extend(std::uint64_t capacity) override;

 private:
  using guard = std::scoped_lock<std::mutex>;
  void begin();
  [[nodiscard]] manifest next_status(const guard&, lsn head) const;
  void write_status(const guard&, lsn head);
  // Runs f, which changes the chain. What cannot be written makes the log unusable.
  template <class F>
  void change_files(const guard&, F&& f);
  // Moves freed files to the end of the chain.
  void reclaim(const guard&);
  [[nodiscard]] std::uint64_t usual_size() const { return std::max<std::uint64_t>(size_, kept_); }
  // See log_files. If there is no space for other files, the long ones are used again.
  bool replace_long(lsn needed);
  void note_space(const guard&);

  os::disk& disk_;
  counters& count_;
  const std::string path_;
  log_stamp stamp_;
  std::unique_ptr<log_files> files_;
  const std::uint64_t size_, max_size_;  // of the manifest
  std::atomic<lsn> head_{0}, tail_{0};   // the head is stored with the status lock held
  // How far there are files, and the bytes of all files.
  std::atomic<std::uint64_t> end_{0}, length_{0};
  std::atomic<std::uint64_t> kept_{0};  // what keep() was asked for

  mutable std::mutex status_mutex_;  // the status lock; guards the manifest, the list of files, and the members below
  status_notes notes_;
  std::atomic<bool> status_is_stale_{false};  // the file says that it was closed cleanly, which is no longer true
  std::uint32_t features_ = 0;                // the features that the live part needs
  bool is_new_ = false;                       // this process has just made the log
  bool is_adopted_ = false;                   // the files are a copy, as the file of the manifest says
};

}  // namespace tenure::rvm
