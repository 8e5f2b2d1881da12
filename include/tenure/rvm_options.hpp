// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How recoverable memory (rvm.hpp) is opened, and what it tells of itself. Stores have it in their own options.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tenure/callback.hpp>

namespace tenure::os {
class disk;
}

namespace tenure::rvm {

struct thresholds;

#pragma GCC visibility push(default)  // libtenure.so exports it

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

enum class open_mode {
  open,            // the log must exist
  create,          // it must not
  open_or_create,  //
  read_only,       // writes nothing; changes that are still in the log are replayed into private memory
};

// Means of finding the pages that a transaction has changed. Each finds the same; they differ in cost.
enum class tracking_mechanism {
  choose,          // the cheapest, by what transactions do; the others are for tests and measurements
  traps,           // each first write to a page is trapped
  growing_runs,    // the same; a trap next to the last one opens more pages
  hot,             // pages stay open once they were written, and are compared at every commit
  scan,            // the kernel notes what is written (userfaultfd, Linux 6.7)
  private_copies,  // the kernel tells of which pages the process has a copy; these are compared
  announced,       // set_range opens pages ahead; writes to others are trapped one by one
};

// A write to an automatically tracked region outside of any automatic transaction.
struct stray_write {
  const std::byte* address;
  const char* segment_path;
  std::uint64_t offset;  // in the segment
  // true: found where it happened, in a signal handler: only async-signal-safe functions may be called. When the observer
  // returns, a message and the stack are written to stderr, and the process ends as after any segmentation fault.
  // false: on a page that was left open, found by the next begin_automatic(), which has put the old bytes back.
  bool trapped;
};

// A page of 4096 bytes that does not match its checksum. What was not overwritten since it was damaged is wrong; the page
// stays marked, and verify_segment reports it, until it is overwritten as a whole.
struct damaged_page {
  std::string segment_path;
  std::uint64_t offset;  // in the segment's data
};

// What may be changed while a memory is open. [RVM §4.2 set_options]
struct tuning {
  // Truncation starts in the background when this part of the log is in use; above 1 or below 0: only when the log is
  // full, or on request.
  double truncation_threshold = 0.5;
  // Bytes of commits that may wait in memory; a commit that finds more waits for the log.
  std::uint64_t spool_limit = std::uint64_t{64} << 20;
  // Checking mode: every commit compares memory with the committed image and throws errc::undeclared_write, naming the
  // bytes, if something changed outside of the ranges declared by open transactions. Slow; for tests. Must be on when
  // a region is mapped to have an effect on it.
  bool check_undeclared = false;
};

// Keeping what truncation takes out of the log, so that `tenure log history` and its like can tell who changed which bytes
// when, and what was there before [RVM §6]. Compressed, in up to 16 files PATH.0 to PATH.15; when they are full the oldest
// goes. Commits wait for the archive only where they wait for truncation. While it cannot be written, nothing is truncated:
// a commit that finds the log full says why (errc::log_stuck).
struct archive_options {
  std::string path = {};                            // empty: the log's path and ".archive"
  std::uint64_t max_size = std::uint64_t{1} << 30;  // bytes of all files together, about; at least 1 MiB
};

// How a memory is opened.
struct options {
  open_mode mode = open_mode::open_or_create;
  log_options log = {};  // used when the log is created
  tuning tune = {};
  // Memory that recovery and truncation may use, in bytes; at least 8 MiB.
  std::uint64_t recovery_memory = std::uint64_t{192} << 20;
  // false: no threads are started; truncation and the writing of spooled commits happen inside the calls that need them.
  bool background = true;
  // Recovery refuses (errc::segment_missing, errc::wrong_log) when the log has changes for a segment that is missing, that
  // another log has taken over, or that is not of the log's own moment. true: such changes are given up, and recovery_report::given_up names the files.
  bool give_up_segments = false;
  // Set: the history is kept. What is truncated while it is not set makes a gap in the archive, which readers name.
  std::optional<archive_options> archive = {};
  progress_callback on_progress = {};
  // Sees every stray write first. Not set: those that are found late make begin_automatic() throw errc::stray_write.
  callback<void(const stray_write&)> on_stray_write = {};
  // Told of each damaged page that truncation meets because part of it was changed, once. In the thread that truncates, with
  // its locks held: it must not use this memory, and what it throws is dropped. See also statistics::damaged_pages.
  callback<void(const damaged_page&)> on_damage = {};
  // The storage; nullptr: the machine's own. For tests on a simulated disk.
  os::disk* disk = nullptr;
  // For tests; nullptr: the usual ones (src/rvm/thresholds.hpp). Only read while the memory is opened.
  const thresholds* limits = nullptr;
};

// What recovery found and did [RVM §5.1.2].
struct recovery_report {
  struct segment {
    std::string path;
    std::uint64_t pages = 0, bytes = 0;  // pages written, and bytes in them that came from the log
  };
  bool needed = false;                                     // false: the log had been closed cleanly, or was empty
  lsn head = 0, tail = 0;                                  // what was live in the log
  std::uint64_t groups = 0, transactions = 0, ranges = 0;  // replayed
  std::uint64_t bytes_read = 0, bytes_applied = 0;
  std::vector<segment> segments;
  std::vector<std::string> given_up;  // paths; see options::give_up_segments
  // Damaged pages of which part was replayed: the rest is as it was found.
  std::vector<damaged_page> damaged;
  // Pages that did not match their checksums because the crash interrupted a truncation that was writing them. Were they
  // damaged, too, outside of the bytes that the log has, nobody would know: they have new checksums.
  std::uint64_t unproven_pages = 0;
  // A write that the crash interrupted: never acknowledged, and discarded.
  std::uint64_t torn_groups = 0, torn_bytes = 0;
  double seconds = 0;
};

// Counters of automatic tracking since the memory was opened.
struct tracking_statistics {
  std::uint64_t commits = 0, aborts = 0;       // of automatic transactions
  std::uint64_t traps = 0, trapped_pages = 0;  // writes that were trapped, and pages that these opened
  std::uint64_t announced_pages = 0;           // opened ahead, by set_range and touch
  std::uint64_t hot_pages_compared = 0;        // at begin and at commit
  std::uint64_t scans = 0, scanned_pages = 0;  // by the kernel's notes, and pages that these found
  std::uint64_t private_scans = 0, private_pages_compared = 0;
  std::uint64_t bulk_switches = 0;   // regions opened as a whole, for scans of either kind
  std::uint64_t widened_traps = 0;   // the process has too many mappings: more was opened than wanted
  std::uint64_t compared_pages = 0;  // at commits, with the committed image
  std::uint64_t changed_pages = 0, changed_ranges = 0, changed_bytes = 0;  // logged because they differed
  std::uint64_t twins = 0, twins_made = 0;                                 // copies of committed pages: now, and ever
  std::uint64_t pages_given_back = 0;  // twins or private copies dropped, truncation having written the page
  std::uint64_t untracked_pages = 0;   // opened by open_untracked
  std::uint64_t anonymous_pages = 0;   // of fresh_space, which the file does not back yet
  std::uint64_t stray_writes = 0;      // found late, and rolled back
};

// Counters since the memory was opened. Savings are those of [RVM §5.2] and its Table 2, in bytes of log.
struct statistics {
  std::uint64_t begun = 0, flush_commits = 0, no_flush_commits = 0, aborts = 0;
  std::uint64_t ranges_declared = 0, bytes_declared = 0;        // as given to set_range, by committed transactions
  std::uint64_t ranges_logged = 0, bytes_logged = 0;            // after both optimizations, payload only
  std::uint64_t intra_ranges_saved = 0, intra_bytes_saved = 0;  // duplicate, overlapping, adjacent ranges
  std::uint64_t inter_transactions_saved = 0,
                inter_bytes_saved = 0;                         // no_flush commits overwritten before they were written
  std::uint64_t batches = 0, syncs = 0;                        // writes of the log, each with one sync
  std::uint64_t log_bytes_written = 0;                         // to the device, headers and padding included
  std::uint64_t log_size = 0, log_used = 0, log_used_max = 0;  // bytes
  std::uint64_t log_grown = 0;                                 // times
  std::uint64_t spooled_bytes = 0;                             // committed, not yet written
  std::uint64_t incremental_truncations = 0, epoch_truncations = 0;
  std::uint64_t incremental_bytes_reclaimed = 0, epoch_bytes_reclaimed = 0;  // of log
  std::uint64_t truncation_blocked = 0;  // incremental steps stopped by an open transaction's page
  std::uint64_t truncation_waits = 0;    // commits that waited for log space
  std::uint64_t pages_written = 0, segment_bytes_written = 0, segment_syncs = 0, status_writes = 0;
  std::uint64_t private_pages_dropped = 0, private_pages_kept = 0;
  std::uint64_t archived_log_bytes = 0,
                archive_bytes_written = 0;         // what went into the archive, and what that took there
  std::uint64_t bulk_extents = 0, bulk_bytes = 0;  // written by write_bulk, straight to segments
  std::uint64_t undeclared_writes = 0;             // found by checking mode
  std::uint64_t damaged_pages = 0;                 // met by recovery or truncation, which changed part of them
  std::uint64_t flush_calls = 0, truncate_calls = 0;
  std::uint64_t write_ns = 0, truncation_ns = 0;  // spent in writing the log, and in truncating it
  tracking_statistics tracking;
};

// Promises about a commit: everything up to it is durable once memory::wait(ticket) returns.
struct ticket {
  std::uint64_t batch = 0;
  friend auto operator<=>(const ticket&, const ticket&) = default;
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
