// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Reading an archive: which stretches of log it has, which are missing and why, and what is in them. The reader takes
// no lock, changes nothing, and may be used while the archive grows. It skips damaged parts and names them; the rest
// can be read.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "log/durable_log.hpp"
#include "records/archive_part.hpp"
#include "records/group.hpp"

namespace tenure::rvm {

// A stretch of log that should be in the archive and is not.
struct archive_gap {
  lsn from, to;
  std::string reason;
};

// The pages of one segment that a frame changes.
struct indexed_pages {
  segment_name segment;
  std::vector<std::uint64_t> pages;  // ascending
};

class archive_reader {
 public:
  // `path` is the result of archive_path(). Parts of another log are skipped. An archive that does not exist is empty.
  archive_reader(os::disk& disk, std::string path, const identity& log_id);

  struct frame {
    frame_header header;
    std::size_t part;  // index into the parts that were found
  };
  // In the order of LSNs. After a crash, neighbouring frames may overlap.
  [[nodiscard]] const std::vector<frame>& frames() const { return frames_; }
  // Holes between the first frame and the last. Damaged headers make some of them; read() may find more.
  [[nodiscard]] const std::vector<archive_gap>& gaps() const { return gaps_; }
  // What was found behind the last frame; "": nothing. A torn frame there is left by a crash; its stretch is still in
  // the log.
  [[nodiscard]] std::string damage_at_end() const;
  // Files where parts belong of which nobody can say what they have or had; what each of them is.
  [[nodiscard]] const std::vector<std::string>& unknown_files() const { return unknown_files_; }
  [[nodiscard]] bool empty() const { return frames_.empty(); }
  [[nodiscard]] lsn begin() const { return frames_.empty() ? 0 : frames_.front().header.from; }
  [[nodiscard]] lsn end() const { return frames_.empty() ? 0 : frames_.back().header.to; }

  // Both throw errc::damaged, with the LSNs that cannot be read, the file and the offset.
  [[nodiscard]] std::vector<indexed_pages> index(const frame& of) const;
  // Calls visit(group, its bytes) for each group of the frame that begins at or after `from`, until visit returns
  // false. Returns whether all were visited.
  bool read(const frame& of, lsn from, const std::function<bool(const group_view&, os::const_bytes)>& visit) const;
  // Compares what both have of [from, to), group by group. Throws errc::wrong_log, with the LSN, if the log has gone on otherwise:
  // a copy of it was put back, and used without the archive [rvm.archive.one-past]. What is damaged is passed over.
  void require_same_past(const readable_log& log, lsn from, lsn to) const;
  // Throws errc::wrong_log if a log that ends at `tail`, having been closed cleanly there, is an older copy of the archive's
  // [rvm.archive.one-past].
  void require_not_ahead(const readable_log& log, lsn tail) const;

 private:
  void find_frames(std::size_t in);
  void find_gaps();
  [[nodiscard]] std::string damage_after(lsn at, std::uint64_t first_part, std::uint64_t last_part) const;
  // A part of the frame's content, decompressed.
  [[nodiscard]] std::vector<std::byte> content(const frame& of, std::uint64_t offset, std::size_t length,
                                               std::uint32_t checksum, std::size_t plain_length) const;
  [[noreturn]] void damaged(const frame& of, const std::string& why) const;

  std::string path_;
  identity log_id_;
  std::vector<archive_part> parts_;
  std::vector<frame> frames_;
  std::vector<archive_gap> gaps_;
  std::vector<std::string> unknown_files_;
  struct damage {
    std::uint64_t part;
    lsn behind;  // where the last frame before the damage ends; 0: the damage is at the part's beginning
    std::string what;
  };
  std::vector<damage> damage_;
};

}  // namespace tenure::rvm
