// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A log's file: its status block, and its area, a ring that is addressed by LSN.
#pragma once

#include <memory>
#include <string>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "log/durable_log.hpp"

namespace tenure::rvm {

// Thread-safe, except for the status: writing, setting and reading it has one user at a time.
class log_file final : public readable_log {
 public:
  // Makes a new log. There must be no file at the path (std::errc::file_exists). The file appears whole or not at all.
  // It is returned locked.
  static std::unique_ptr<log_file> create(os::disk& disk, const std::string& path, const log_options& how,
                                          const progress_callback& progress);
  // Makes a log that continues another one and replaces it. `status` is that log's status, with another area.
  static std::unique_ptr<log_file> create(os::disk& disk, const std::string& path, const status_block& status);

  // Opens, locks and validates.
  static std::unique_ptr<log_file> open(os::disk& disk, const std::string& path, os::access access);
  // The same without a lock, for looking at a log that may be in use. Reads only.
  static std::unique_ptr<log_file> open_unlocked(os::disk& disk, const std::string& path);

  [[nodiscard]] const identity& id() const override { return status_.log_id; }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const status_block& status() const { return status_; }
  // Whether this copy of the status was valid when the log was opened.
  [[nodiscard]] bool copy_valid(int copy) const { return copy_valid_[copy]; }
  [[nodiscard]] std::uint64_t area() const override { return area_; }
  [[nodiscard]] std::uint32_t block() const override { return block_; }
  // Whether the path still names this file.
  [[nodiscard]] bool has_its_name() const { return file_->is_current(); }
  void sync_name() { file_->sync_name(); }
  [[nodiscard]] std::uint64_t file_offset(lsn at) const override { return log_area_offset + at % area_; }

  void read(lsn at, os::bytes into) const override;
  void read_ahead(lsn at, std::uint64_t length) const noexcept override;
  // Writes the pieces one after the other, from a block boundary on. All are whole blocks. Durable on return.
  void write_durably(lsn at, std::span<const os::const_bytes> from);
  // Writes the stored bytes once more. They are durable then, even if the first write was not.
  void make_durable(lsn from, lsn to);

  // Makes `status` durable in both copies, one after the other, so that one is whole at every moment
  // [rvm.log.status-twice]. The sequence number is set here.
  void write_status(const status_block& status);
  // Sets the status in memory until the next write_status(). The file keeps its own.
  void set_status(const status_block& status) { status_ = status; }

 private:
  enum class existing_file { refuse, replace };
  template <class F>
  static std::unique_ptr<log_file> create(os::disk& disk, const std::string& path, unsigned permissions,
                                          existing_file old, const progress_callback& progress, F&& status_for);
  static std::unique_ptr<log_file> validate(std::unique_ptr<os::file> file, const std::string& path, os::access access);
  log_file(std::unique_ptr<os::file> file, std::string path, const status_block& status)
      : file_(std::move(file)),
        path_(std::move(path)),
        area_(status.area_length),
        block_(status.block_size),
        status_(status),
        written_(status) {}

  std::unique_ptr<os::file> file_;
  std::string path_;
  // Kept outside of the status, because truncation changes the status while other threads read and write the area.
  std::uint64_t area_;
  std::uint32_t block_;
  status_block status_, written_;  // written_: the contents of the current copy in the file
  bool copy_valid_[2] = {true, true};
  // The current copy. The other one is written first, because it may be torn or older.
  int held_ = 1;
  bool held_is_durable_ = true;  // if false, the held copy is written again before the other one is changed
};

}  // namespace tenure::rvm
