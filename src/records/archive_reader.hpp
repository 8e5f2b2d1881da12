// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Reading an archive: which stretches of log it has, which it lacks and why, and what is in them. Takes no lock, changes
// nothing, and can be used while the archive grows. What is damaged is left out and named; the rest can be read.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>

#include "records/archive_format.hpp"
#include "records/group.hpp"

namespace tenure::rvm {

// A stretch of log that should be there and is not.
struct archive_gap {
  lsn from, to;
  std::string reason;
};

// The pages of a segment that a frame changes.
struct indexed_pages {
  segment_name segment;
  std::vector<std::uint64_t> pages;  // ascending
};

class archive_reader {
 public:
  // `path` as archive_path() gives it. Parts of another log are passed over. An archive that does not exist is empty.
  archive_reader(os::disk& disk, std::string path, const identity& log_id);

  struct frame {
    frame_header header;
    std::size_t part;  // index into the parts that were found
  };
  // In the order of LSNs. Frames may overlap at their ends after a crash.
  [[nodiscard]] const std::vector<frame>& frames() const { return frames_; }
  // Holes between the first frame and the last; damaged headers make some, read() finds more.
  [[nodiscard]] const std::vector<archive_gap>& gaps() const { return gaps_; }
  // What was found behind the last frame; empty: nothing. A torn frame is what a crash leaves, and is in the log still.
  [[nodiscard]] std::string damage_at_end() const;
  [[nodiscard]] bool empty() const { return frames_.empty(); }
  [[nodiscard]] lsn begin() const { return frames_.empty() ? 0 : frames_.front().header.from; }
  [[nodiscard]] lsn end() const { return frames_.empty() ? 0 : frames_.back().header.to; }

  // Both throw errc::damaged, with the LSNs that cannot be read, the file and the offset.
  [[nodiscard]] std::vector<indexed_pages> index(const frame& of) const;
  // Calls visit(group, its bytes) for each group of the frame that begins at or after `from`, until it returns false.
  // Returns whether it never did.
  bool read(const frame& of, lsn from, const std::function<bool(const group_view&, os::const_bytes)>& visit) const;

 private:
  struct part {
    std::string path;
    std::uint64_t number;
    std::unique_ptr<os::file> file;
  };
  void find_frames(std::size_t in);
  // Moves on to the first valid header at or after `at`; false if there is none.
  bool find_header(const part& in, std::uint64_t& at, frame_header& header) const;
  void find_gaps(const std::vector<std::string>& damaged_files);
  [[nodiscard]] std::string damage_after(lsn at, std::uint64_t first_part, std::uint64_t last_part) const;
  // A part of the frame's content, decompressed.
  [[nodiscard]] std::vector<std::byte> content(const frame& of, std::uint64_t offset, std::size_t length,
                                               std::uint32_t checksum, std::size_t plain_length) const;
  [[noreturn]] void damaged(const frame& of, const std::string& why) const;

  std::string path_;
  identity log_id_;
  std::vector<part> parts_;
  std::vector<frame> frames_;
  std::vector<archive_gap> gaps_;
  struct damage {
    std::uint64_t part;
    lsn behind;  // the last frame before it ends here; 0: it is at the part's beginning
    std::string what;
  };
  std::vector<damage> damage_;
};

}  // namespace tenure::rvm
