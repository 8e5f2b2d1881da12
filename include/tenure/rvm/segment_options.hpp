// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How a segment is made, and what it says of itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tenure::rvm {

// How a segment is made.
struct segment_options {
  std::uint64_t length = 0;      // bytes of recoverable memory, zero at first; rounded up to pages
  std::uint64_t max_length = 0;  // room for growth, fixed for ever; 0: `length`. Costs no time and next to no space
  unsigned permissions = 0600;
  // For layers above, which find them again in segment_info: the address at which the data wants to be mapped, and what
  // it is. Nothing here looks at them.
  std::uint64_t home = 0, tag = 0;
  // For layers above: the segment belongs to what the log belongs to, as a database to its store. The log's manifest lists
  // it, as pending until memory::confirm_member.
  bool member = false;
};

// A segment that is to be made.
struct new_segment {
  std::string path;
  segment_options how;
};

using segment_identity = std::array<std::byte, 16>;  // random; of one segment and of its copies

// What a segment says of itself.
struct segment_info {
  std::uint64_t length = 0, max_length = 0;  // bytes of recoverable memory, now and at most
  std::uint64_t home = 0, tag = 0;           // as in segment_options
  bool is_of_this_log = true;                // its last changes, if there were any, were made under this log
  segment_identity id{};
};

// A member that the log's manifest lists.
struct segment_member {
  std::string path;
  segment_identity id;
  bool is_pending;  // a crash may have come before its first transaction; then it can be dropped
};

// A page of 4096 bytes that does not match its checksum. What was not overwritten since it was damaged is wrong; the page
// stays marked, and verify_segment reports it, until it is overwritten as a whole.
struct damaged_page {
  std::string segment_path;
  std::uint64_t offset;  // in the segment's data
};

}  // namespace tenure::rvm
