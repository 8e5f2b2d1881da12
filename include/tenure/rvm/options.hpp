// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How a memory is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tenure/callback.hpp>
#include <tenure/rvm/log_options.hpp>
#include <tenure/rvm/prepared.hpp>
#include <tenure/rvm/segment_options.hpp>

namespace tenure::os {
class disk;
}

namespace tenure::rvm {

struct thresholds;

enum class open_mode {
  open,            // the log must exist
  create,          // it must not
  open_or_create,  //
  read_only,       // writes nothing; changes that are still in the log are replayed into private memory
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

// A write in a transaction that no announcement preceded (map_options::barriers), found by a commit: by this one, which logs
// it, or by a later one, which logs it late.
struct unseen_store {
  const std::byte* address;
  std::size_t length;  // bytes that differ, up to the next one that does not
  const char* segment_path;
  std::uint64_t offset;  // in the segment
  const char* what;      // the object and its field, if a layer above knows them; otherwise ""
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
  // A copy that was made while the log was in use may have files of several moments. It is recognised by the inodes of its
  // files.
  copied_files copied = copied_files::refuse;
  // Set: the history is kept. What is truncated while it is not set makes a gap in the archive, which readers name.
  std::optional<archive_options> archive = {};
  progress_callback on_progress = {};
  // Says the outcome of a transaction that is prepared when the memory is opened for writing (transaction::prepare); it is
  // committed or aborted before anything else happens. What it throws, the opening throws, and the transaction stays prepared.
  // Not set: errc::in_doubt.
  callback<outcome(const prepared_transaction&)> in_doubt = {};
  // Sees every stray write that is found (docs/caveats.md says which are not), first. Not set: those that are found late
  // make begin_automatic() throw errc::stray_write.
  callback<void(const stray_write&)> on_stray_write = {};
  // Sees every unseen store that is found, in the thread that commits. Not set: with write_barriers::checking such a commit
  // throws errc::unseen_store, with write_barriers::announced it is only counted (statistics::unseen_stores).
  callback<void(const unseen_store&)> on_unseen_store = {};
  // Told of each damaged page that truncation meets because part of it was changed, once. In the thread that truncates, with
  // its locks held: it must not use this memory, and what it throws is dropped. See also statistics::damaged_pages.
  callback<void(const damaged_page&)> on_damage = {};
  // For layers above: a member that is made together with the log, if the log is made. That takes fewer syncs. It lies in the
  // log's directory. nullptr: none. Only read while the memory is opened.
  const new_segment* first_member = nullptr;
  // The storage; nullptr: the machine's own. For tests on a simulated disk.
  os::disk* disk = nullptr;
  // For tests; nullptr: the usual ones (src/records/thresholds.hpp). Only read while the memory is opened.
  const thresholds* limits = nullptr;
};

}  // namespace tenure::rvm
