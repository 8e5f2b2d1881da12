// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Positions in the log, and how a log and its archive are made.
#pragma once

#include <cstdint>
#include <string>

#include <tenure/callback.hpp>

namespace tenure::rvm {

// A position in the log: 64 bits, growing, never used twice. Each file of the log has consecutive positions.
using lsn = std::uint64_t;

// What a long operation has done so far, in bytes.
struct progress {
  const char* phase;  // "creating log", "looking behind the log's tail", "recovering", "verifying"
  std::uint64_t done, total;
};
using progress_callback = callback<void(const progress&)>;

// How a log is made. [RVM §4.2 create_log] It is a manifest, at the log's path, and files PATH.1, PATH.2 and so on: first
// one of at most 64 KiB, then more, of 1 MiB and longer, as the log is used.
struct log_options {
  // Bytes that the log usually takes, rounded up to the block size, at least 64 KiB. When it has so much, space in it is
  // freed and used again.
  std::uint64_t size = std::uint64_t{64} << 20;
  // The log grows up to this for a transaction that needs it, and becomes smaller afterwards; at most `size`: it never
  // grows.
  std::uint64_t max_size = std::uint64_t{16} << 30;
  std::uint32_t block_size = 0;  // 512 to 4096, a power of two; 0: what the storage writes as a whole
  unsigned permissions = 0600;   // of its files, and of a store's databases
  bool allocate_all = false;  // true: all of `size` is allocated at once, so that no commit up to it meets a full disk
};

// What to do with files of a log that was in use when they were copied (errc::copied).
enum class copied_files {
  refuse,
  adopt,  // they were looked at, and are what the log is from now on (`tenure adopt`)
};

// Keeping what truncation takes out of the log, so that `tenure log history` and its like can tell who changed which bytes
// when, and what was there before [RVM §6]. Compressed, in up to 16 files PATH.0 to PATH.15; when they are full the oldest
// goes. Commits wait for the archive only where they wait for truncation. While it cannot be written, nothing is truncated:
// a commit that finds the log full says why (errc::log_stuck).
struct archive_options {
  std::string path = {};  // empty: the log's path and ".archive"; one log at a time writes to it
  std::uint64_t max_size = std::uint64_t{1} << 30;  // bytes of all files together, about; at least 1 MiB
};

}  // namespace tenure::rvm
