// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Reading a log: finds its tail after a crash, and walks over its groups from tail to head.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "log/durable_log.hpp"
#include "log/manifest.hpp"
#include "records/group.hpp"

namespace tenure::rvm {

// Where the valid part of a log ends, and what was found behind it.
struct log_tail {
  lsn tail = 0;                                   // behind the last whole batch
  lsn last_group = 0;                             // the group that ends there; meaningless if the log is empty
  std::uint64_t torn_groups = 0, torn_bytes = 0;  // intact groups of a batch that is not whole
  // Where the last whole batch begins, if it may not have been synced; else the tail.
  lsn last_batch = 0;
};

// Finds the tail of a log that was not closed cleanly; `status` is its manifest. It finds groups by binary search. Then
// it looks for later groups in everything behind the tail. Such a group would prove that acknowledged data is missing
// before it: errc::damaged, with the offset [rvm.log.damage]. Also throws what require_newest() throws.
[[nodiscard]] log_tail find_tail(const readable_log& log, const manifest& status,
                                 const progress_callback& progress = {});
// For a log that was closed cleanly: throws errc::wrong_log if its manifest is an older copy, so that the log goes on
// behind the tail.
void require_newest(const readable_log& log, const manifest& status);

// A part of a log. It begins and ends with whole groups.
struct log_part {
  lsn from, to;
  lsn last_group;  // the one that ends at `to`; meaningless if the part is empty
  [[nodiscard]] std::uint64_t length() const { return to - from; }
};

// The group that ends at `end`, and does not begin before `from`. Throws errc::damaged if there is none.
[[nodiscard]] lsn find_group_before(const readable_log& log, lsn from, lsn end);

// Calls visit(group) for each group of the part, last to first, until visit returns false. Reads at least 1 MiB at a
// time, and nothing twice. Throws errc::damaged where a group is invalid.
void read_backwards(const readable_log& log, const log_part& part, const std::function<bool(const group_view&)>& visit);

// The first group at or after `at` and before `to`, and the group before it; nullopt if there is none. Long logs are
// cut into parts there.
struct group_start {
  lsn at, previous;
};
[[nodiscard]] std::optional<group_start> find_group(const readable_log& log, lsn at, lsn to);

// Calls visit(header, bytes) for each intact group that begins in [from, to), first to last, until visit returns false.
// Bytes between them are skipped, and groups that end beyond `to` are not visited. It is for logs that may be damaged,
// or that another process may be writing, so it does not consider batches. Throws only where the file cannot be read.
void scan_groups(const readable_log& log, lsn from, lsn to,
                 const std::function<bool(const group_header&, os::const_bytes)>& visit);

// "LOG: the log's group at LSN 8192 (LOG.1, offset 12288)", for messages.
[[nodiscard]] std::string place_of(const readable_log& log, lsn at);

}  // namespace tenure::rvm
