// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Reading a log: finding its tail after a crash, and walking over its groups from tail to head.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "rvm/group.hpp"
#include "rvm/log_file.hpp"

namespace tenure::rvm {

// Where the valid part of a log ends, and what lies behind it.
struct log_tail {
  lsn tail = 0;                                   // behind the last whole batch
  lsn last_group = 0;                             // the group that ends there; meaningless if the log is empty
  std::uint64_t torn_groups = 0, torn_bytes = 0;  // intact groups of a batch that is not whole
  // Where the last whole batch starts, if it is not certain that it was synced; else the tail.
  lsn last_batch = 0;
};

// Finds the tail of a log that was not closed cleanly. Groups are looked for by binary search; everything behind the tail
// is then looked through for later groups, which would prove that the tail is a hole in acknowledged data: errc::damaged,
// with the offset [rvm.log.damage].
[[nodiscard]] log_tail find_tail(const log_file& log, const progress_callback& progress = {});

// Calls visit(group) for each group in [from, to), last to first, until it returns false; reads at least 1 MiB at a time
// and nothing twice. `last` is the LSN of the group that ends at `to`. Throws errc::damaged where a group is invalid.
void read_backwards(const log_file& log, lsn from, lsn to, lsn last,
                    const std::function<bool(const group_view&)>& visit);

// The first group at or after `at` and before `to`, and the one before it; nullopt if there is none. Where long logs are
// cut into parts.
struct group_start {
  lsn at, previous;
};
[[nodiscard]] std::optional<group_start> find_group(const log_file& log, lsn at, lsn to);

// Calls visit(header, bytes) for each intact group that begins in [from, to), first to last, until it returns false; what is
// between them is passed over, and groups that end beyond `to` are not seen. For looking at logs that may be damaged or
// written to meanwhile: batches are not considered. Throws only where the file cannot be read.
void scan_groups(const log_file& log, lsn from, lsn to,
                 const std::function<bool(const group_header&, os::const_bytes)>& visit);

// "the log's group at LSN 4096 (PATH, offset 12288)", for messages.
[[nodiscard]] std::string place_of(const log_file& log, lsn at);

}  // namespace tenure::rvm
