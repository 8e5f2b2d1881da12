// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Reading a log: finding its tail after a crash, and walking over its groups from tail to head.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "log/durable_log.hpp"
#include "records/group.hpp"

namespace tenure::rvm {

// Where the valid part of a log ends, and what lies behind it.
struct log_tail {
  lsn tail = 0;                                   // behind the last whole batch
  lsn last_group = 0;                             // the group that ends there; meaningless if the log is empty
  std::uint64_t torn_groups = 0, torn_bytes = 0;  // intact groups of a batch that is not whole
  // Where the last whole batch starts, if it is not certain that it was synced; else the tail.
  lsn last_batch = 0;
};

// Finds the tail of a log that was not closed cleanly; `status` is its status. Groups are looked for by binary search; everything behind the tail
// is then looked through for later groups, which would prove that the tail is a hole in acknowledged data: errc::damaged,
// with the offset [rvm.log.damage].
[[nodiscard]] log_tail find_tail(const readable_log& log, const status_block& status,
                                 const progress_callback& progress = {});

// A part of a log that begins and ends with whole groups.
struct log_part {
  lsn from, to;
  lsn last_group;  // the one that ends at `to`; meaningless if the part is empty
  [[nodiscard]] std::uint64_t length() const { return to - from; }
};

// Calls visit(group) for each group of the part, last to first, until it returns false; reads at least 1 MiB at a time and
// nothing twice. Throws errc::damaged where a group is invalid.
void read_backwards(const readable_log& log, const log_part& part, const std::function<bool(const group_view&)>& visit);

// The first group at or after `at` and before `to`, and the one before it; nullopt if there is none. Where long logs are
// cut into parts.
struct group_start {
  lsn at, previous;
};
[[nodiscard]] std::optional<group_start> find_group(const readable_log& log, lsn at, lsn to);

// Calls visit(header, bytes) for each intact group that begins in [from, to), first to last, until it returns false; what is
// between them is passed over, and groups that end beyond `to` are not seen. For looking at logs that may be damaged or
// written to meanwhile: batches are not considered. Throws only where the file cannot be read.
void scan_groups(const readable_log& log, lsn from, lsn to,
                 const std::function<bool(const group_header&, os::const_bytes)>& visit);

// "the log's group at LSN 4096 (PATH, offset 12288)", for messages.
[[nodiscard]] std::string place_of(const readable_log& log, lsn at);

}  // namespace tenure::rvm
