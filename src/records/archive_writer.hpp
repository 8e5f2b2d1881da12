// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Keeps what truncation removes from the log. `tenure log history` and similar commands read it.
//
// A stretch of log is durable in the archive before the log's head moves over it [rvm.archive.before-head]. So log and
// archive together have no hole, whenever a crash comes. At worst they overlap.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "log/counters.hpp"
#include "log/durable_log.hpp"
#include "os/cleared_memory.hpp"
#include "records/archive_format.hpp"

struct ZSTD_CCtx_s;

namespace tenure::rvm {

class archive_part;

// Used by one thread at a time.
class archive_writer {
 public:
  // Finds what the archive already has. Frames will hold about this many bytes of log.
  archive_writer(os::disk& disk, const archive_options& how, const readable_log& log, counters& count,
                 std::size_t frame = max_stretch);
  ~archive_writer();
  archive_writer(const archive_writer&) = delete;
  archive_writer& operator=(const archive_writer&) = delete;

  // Everything before this LSN is in the archive; 0: the archive is empty.
  [[nodiscard]] lsn end() const { return end_; }
  // Makes the groups of [from, to) durable in the archive, unless they are already. If it throws, they may be durable
  // or not, and the call can be repeated.
  void append(const readable_log& log, lsn from, lsn to);
  // As archive_reader's.
  void require_same_past(const readable_log& log, lsn from, lsn to) const;
  // Throws if an invariant does not hold.
  void check() const;

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
  [[nodiscard]] bool is_left_over(const archive_part& part) const;

  os::disk& disk_;
  const std::size_t frame_;
  const std::string path_, log_path_;
  const identity log_id_;
  const std::uint64_t part_size_;
  counters& count_;

  std::uint64_t part_ = 0;          // number of the newest part of any log; 0: none
  std::uint64_t begun_ = 0;         // number of the part that was to get its name last
  std::unique_ptr<os::file> file_;  // that part, if a frame can be appended: nothing is behind its last frame
  std::uint64_t at_ = 0;            // offset of its next frame
  lsn end_ = 0;

  std::unique_ptr<ZSTD_CCtx_s, std::size_t (*)(ZSTD_CCtx_s*)> compressor_;
  os::cleared_vector<std::byte> buffer_;
  std::vector<std::byte> content_;
};

}  // namespace tenure::rvm
