// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A log's file: its status block, and its area as a ring that is addressed by LSN.
#pragma once

#include <memory>
#include <string>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "log/durable_log.hpp"

namespace tenure::rvm {

// Thread-safe but for writing or setting the status and the one it returns, which have one user at a time.
class log_file final : public readable_log {
 public:
  // Makes a new log, where there must be no file (std::errc::file_exists). It appears whole or not at all. Returned locked.
  static std::unique_ptr<log_file> create(os::disk& disk, const std::string& path, const log_options& how,
                                          const progress_callback& progress);
  // Makes a log that continues another one, whose status this is, with another area, and replaces it.
  static std::unique_ptr<log_file> create(os::disk& disk, const std::string& path, const status_block& status);

  // Opens and validates. The lock is taken unless `lock` is false (for looking at a live log).
  static std::unique_ptr<log_file> open(os::disk& disk, const std::string& path, os::access access, bool lock);

  [[nodiscard]] const identity& id() const override { return status_.log_id; }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const status_block& status() const { return status_; }
  // Which status copies were valid when the log was opened.
  [[nodiscard]] bool copy_valid(int copy) const { return copy_valid_[copy]; }
  [[nodiscard]] std::uint64_t area() const override { return area_; }
  [[nodiscard]] std::uint32_t block() const override { return block_; }
  // Whether the path still names this file.
  [[nodiscard]] bool has_its_name() const { return file_->is_current(); }
  void sync_name() { file_->sync_name(); }
  [[nodiscard]] std::uint64_t file_offset(lsn at) const override { return log_area_offset + at % area_; }

  void read(lsn at, os::bytes into) const override;
  void read_ahead(lsn at, std::uint64_t length) const noexcept override;
  // Writes one after the other, at a block boundary, all whole blocks; durable when it returns.
  void write_durably(lsn at, std::span<const os::const_bytes> from);
  // Writes what is there once more, so that it is durable whatever happened to the first writing.
  void make_durable(lsn from, lsn to);

  // Makes `status` (its sequence is set here) durable in both copies, one after the other: at every moment one is whole
  // [rvm.log.status-twice].
  void write_status(const status_block& status);
  // The status until the next write_status(); the file keeps its own.
  void set_status(const status_block& status) { status_ = status; }

 private:
  template <class F>
  static std::unique_ptr<log_file> create(os::disk& disk, const std::string& path, unsigned permissions, bool replacing,
                                          const progress_callback& progress, F&& status_for);
  log_file(std::unique_ptr<os::file> file, std::string path, const status_block& status)
      : file_(std::move(file)),
        path_(std::move(path)),
        area_(status.area_length),
        block_(status.block_size),
        status_(status),
        written_(status) {}

  std::unique_ptr<os::file> file_;
  std::string path_;
  // Apart from the status, which truncation rewrites while others read and write the area.
  std::uint64_t area_;
  std::uint32_t block_;
  status_block status_, written_;  // and what the copy that is known to hold says
  bool copy_valid_[2] = {true, true};
  // The copy that is known to hold; the other one is written first, for it may be torn or older.
  int held_ = 1;
  bool held_is_durable_ = true;  // else it is written once as it is, before the other one is touched
};

}  // namespace tenure::rvm
