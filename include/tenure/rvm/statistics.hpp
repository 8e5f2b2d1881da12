// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What recovery has found, and counters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tenure/rvm/log_options.hpp>
#include <tenure/rvm/segment_options.hpp>

namespace tenure::rvm {

// What recovery found and did [RVM §5.1.2].
struct recovery_report {
  struct segment {
    std::string path;
    std::uint64_t pages = 0, bytes = 0;  // pages written, and bytes in them that came from the log
  };
  bool needed = false;                                     // false: the log had been closed cleanly, or was empty
  lsn head = 0, tail = 0;                                  // what was live in the log
  lsn first = 0;                                           // where the log began; 0: nobody knows
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
  std::uint64_t whole_openings = 0;  // regions opened as a whole, for scans of either kind
  std::uint64_t widened_traps = 0;   // the process has too many mappings: more was opened than wanted
  std::uint64_t compared_pages = 0;  // at commits, with the committed image
  std::uint64_t changed_pages = 0, changed_ranges = 0, changed_bytes = 0;  // logged because they differed
  std::uint64_t before_images = 0, before_images_made = 0;                 // copies of committed pages: now, and ever
  std::uint64_t pages_given_back = 0;  // before-images or private copies dropped, truncation having written the page
  std::uint64_t untracked_pages = 0;   // opened by open_untracked
  std::uint64_t anonymous_pages = 0;   // of fresh_space, which the file does not back yet
  std::uint64_t stray_writes = 0;      // found late, and rolled back
  std::uint64_t unseen_stores = 0;     // pages with writes that were not announced
  std::uint64_t audited_pages = 0;     // compared although no write to them was announced
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
  std::uint64_t log_held = 0;                                  // bytes before the head, kept for a backup or a reader
  std::uint64_t log_grown = 0;                                 // times
  std::uint64_t spooled_bytes = 0;                             // committed, not yet written
  std::uint64_t incremental_truncations = 0, epoch_truncations = 0;
  std::uint64_t incremental_bytes_reclaimed = 0, epoch_bytes_reclaimed = 0;  // of log
  std::uint64_t truncation_blocked = 0;  // incremental steps stopped by an open transaction's page
  std::uint64_t truncation_waits = 0;    // commits that waited for log space
  std::uint64_t pages_written = 0, segment_bytes_written = 0, segment_syncs = 0, status_writes = 0;
  std::uint64_t private_pages_dropped = 0, private_pages_kept = 0;
  std::uint64_t archived_log_bytes = 0,
                archive_bytes_written = 0;      // what went into the archive, and what that took there
  std::uint64_t bulk_runs = 0, bulk_bytes = 0;  // written by write_bulk, straight to segments
  std::uint64_t cleared_bytes = 0;              // whose space was given back
  std::uint64_t undeclared_writes = 0;          // found by checking mode
  std::uint64_t damaged_pages = 0;              // met by recovery or truncation, which changed part of them
  std::uint64_t flush_calls = 0, truncate_calls = 0;
  std::uint64_t write_ns = 0, truncation_ns = 0;  // spent in writing the log, and in truncating it
  tracking_statistics tracking;
};

// Counters over the life of a log: of all earlier openings that ended with a clean close, and of this one so far.
struct log_totals {
  std::uint64_t opened = 0, recovered = 0;  // recovered: openings that found something to replay
  std::uint64_t transactions = 0, no_flush_commits = 0, aborts = 0;
  // As in statistics. log_used_max is the largest of all.
  std::uint64_t intra_ranges_saved = 0, intra_bytes_saved = 0, inter_transactions_saved = 0, inter_bytes_saved = 0;
  std::uint64_t batches = 0, log_bytes_written = 0, log_used_max = 0, log_grown = 0;
  std::uint64_t truncation_waits = 0, incremental_truncations = 0, epoch_truncations = 0;
  std::uint64_t flush_calls = 0, truncate_calls = 0, write_ns = 0, truncation_ns = 0;
  std::uint64_t damaged_pages = 0;
};

}  // namespace tenure::rvm
