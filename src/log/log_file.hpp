// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One file of a log: consecutive bytes of it, from a base LSN on.
#pragma once

#include <memory>
#include <string>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "log/format.hpp"
#include "log/new_file.hpp"
#include "os/file.hpp"

namespace tenure::rvm {

// The path of a log's file. Files lie beside the manifest; if the log's path is a symbolic link, beside its target.
[[nodiscard]] std::string log_file_path(os::disk& disk, const std::string& log_path, std::uint32_t number);

// Any thread may read and write bytes of the log. The base changes only while the file has none that are needed.
class log_file {
 public:
  // Makes the file; it appears whole or not at all, and replaces one that has the name. Bytes of the log are zeros.
  static std::unique_ptr<log_file> create(os::disk& disk, const std::string& path, log_file_header header,
                                          unsigned permissions, const progress_callback& progress);
  // The same in two steps: the file is written; it becomes durable and gets its name.
  class unfinished {
   public:
    unfinished(os::disk& disk, const std::string& path, log_file_header header, unsigned permissions,
               const progress_callback& progress);
    [[nodiscard]] log_file_entry entry() const;
    [[nodiscard]] std::unique_ptr<log_file> finish();

   private:
    new_file making_;
    log_file_header header_;
  };
  // Opens and validates it. It must be this file of this log.
  static std::unique_ptr<log_file> open(os::disk& disk, const std::string& path, os::access access,
                                        const manifest_header& log, const log_file_entry& listed);

  [[nodiscard]] const std::string& path() const { return file_->path(); }
  [[nodiscard]] std::uint32_t number() const { return header_.number; }
  [[nodiscard]] std::uint64_t sequence() const { return header_.sequence; }
  [[nodiscard]] std::uint64_t length() const { return header_.length; }
  [[nodiscard]] lsn base() const { return header_.base; }
  [[nodiscard]] lsn end() const { return header_.base + header_.length; }
  // What a manifest says about the file.
  [[nodiscard]] log_file_entry entry() const;

  // From now on the file has other bytes of the log: those from `base` on. Durable in both copies of the header on
  // return, so that no damage of one of them can make the file look free [rvm.log.file-header].
  void rebase(lsn base, std::uint64_t sequence);

  // After a crash: the copy of the header that holds may be in the page cache only. Writes both once more, unless they
  // are the same.
  void make_header_durable();

  // Reads from `at` on, not beyond the file's end.
  void read(lsn at, os::bytes into) const;
  void read_ahead(lsn at, std::uint64_t length) const noexcept;
  // Durable after sync().
  void write(lsn at, std::span<const os::const_bytes> from) { file_->write_all_at(offset_of(at), from); }
  void write_durably(lsn at, std::span<const os::const_bytes> from) { file_->write_durably_at(offset_of(at), from); }
  void sync() { file_->sync(); }
  void sync_name() { file_->sync_name(); }
  [[nodiscard]] std::uint64_t offset_of(lsn at) const { return log_file_data + (at - header_.base); }

 private:
  log_file(std::unique_ptr<os::file> file, const log_file_header& header) : file_(std::move(file)), header_(header) {}

  std::unique_ptr<os::file> file_;
  log_file_header header_;
  int held_ = 0;                // the copy that holds
  bool copies_differ_ = false;  // the other one is older, or damaged
};

// Whether the file at this path may be replaced when a log makes its file there: it has no groups of a log, because a
// crash has left it while the log was made, or it is a file of this log that no manifest names any more.
[[nodiscard]] bool is_left_over_log_file(os::disk& disk, const std::string& path, const identity& log_id);
// Whether it is the first file of this log, to which nothing was ever written.
[[nodiscard]] bool is_unused_log_file(os::disk& disk, const std::string& path, const identity& log_id);

}  // namespace tenure::rvm
