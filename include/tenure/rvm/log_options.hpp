// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Positions in the log, and how a log and its archive are made.
#pragma once

#include <cstdint>
#include <string>

#include <tenure/callback.hpp>

namespace tenure::rvm {

// A position in the log: 64 bits, growing, never used twice. Its place in the file is the LSN modulo the log's size.
using lsn = std::uint64_t;

// What a long operation has done so far, in bytes.
struct progress {
  const char* phase;  // "creating log", "looking behind the log's tail", "recovering", "verifying"
  std::uint64_t done, total;
};
using progress_callback = callback<void(const progress&)>;

// How a log is made. [RVM §4.2 create_log]
struct log_options {
  std::uint64_t size = std::uint64_t{64} << 20;      // bytes for records; rounded up to the block size, at least 64 KiB
  std::uint64_t max_size = std::uint64_t{16} << 30;  // the log grows up to this for a transaction that needs it; at
                                                     // most `size`: it never grows
  std::uint32_t block_size = 0;  // 512 to 4096, a power of two; 0: what the storage writes as a whole
  unsigned permissions = 0600;
};

// Keeping what truncation takes out of the log, so that `tenure log history` and its like can tell who changed which bytes
// when, and what was there before [RVM §6]. Compressed, in up to 16 files PATH.0 to PATH.15; when they are full the oldest
// goes. Commits wait for the archive only where they wait for truncation. While it cannot be written, nothing is truncated:
// a commit that finds the log full says why (errc::log_stuck).
struct archive_options {
  std::string path = {};                            // empty: the log's path and ".archive"
  std::uint64_t max_size = std::uint64_t{1} << 30;  // bytes of all files together, about; at least 1 MiB
};

}  // namespace tenure::rvm
