// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Keeps what truncation takes out of the log: the history that `tenure log history` and its like read.
//
// A stretch of log is durable in the archive before the log's head moves over it [rvm.archive.before-head]. So log and
// archive together have no hole, whatever crash comes between; at worst they overlap.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "log/counters.hpp"
#include "log/durable_log.hpp"
#include "records/archive_format.hpp"

struct ZSTD_CCtx_s;

namespace tenure::rvm {

// One thread at a time.
class archive_writer {
 public:
  // Finds what is there already. Writes frames of about so many bytes of log.
  archive_writer(os::disk& disk, const archive_options& how, const readable_log& log, counters& count,
                 std::size_t frame = max_stretch);
  ~archive_writer();
  archive_writer(const archive_writer&) = delete;
  archive_writer& operator=(const archive_writer&) = delete;

  // What lies before this LSN is in the archive; 0: it is empty.
  [[nodiscard]] lsn end() const { return end_; }
  // Makes the groups of [from, to) durable in the archive, unless they are already. If it throws they are not, or may be;
  // it can be tried again.
  void append(const readable_log& log, lsn from, lsn to);

 private:
  struct stretch {
    frame_header header;
    std::vector<std::byte> content;  // index and log, compressed, padded
  };
  void find_end();
  [[nodiscard]] stretch take(const readable_log& log, lsn from, lsn to);
  [[nodiscard]] std::size_t compress(os::const_bytes from, std::size_t to);
  void write(stretch& what);
  void write_to_new_part(stretch& what);

  os::disk& disk_;
  const std::size_t frame_;
  const std::string path_, log_path_;
  const identity log_id_;
  const std::uint64_t part_size_;
  counters& count_;

  std::uint64_t part_ = 0;          // the newest of any log, 0: none
  std::unique_ptr<os::file> file_;  // of that part, if it can be written on: nothing is behind its last frame
  std::uint64_t at_ = 0;            // where its next frame goes
  lsn end_ = 0;

  std::unique_ptr<ZSTD_CCtx_s, std::size_t (*)(ZSTD_CCtx_s*)> compressor_;
  std::vector<std::byte> buffer_, content_;
};

}  // namespace tenure::rvm
