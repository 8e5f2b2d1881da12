// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Garbage collection of an open store: how it is asked for, and what it tells.
#pragma once

#include <cstdint>
#include <vector>

#include <tenure/callback.hpp>
#include <tenure/error.hpp>
#include <tenure/rvm/log_options.hpp>
#include <tenure/store/statistics.hpp>

namespace tenure {

// What of the program keeps objects.
enum class program_roots {
  // All words of its writable memory that may be pointers. The program's threads stand still while it is copied.
  all_memory,
  // Its handles (tenure/store/handle.hpp) only. Nobody stands still, but everything else that the program keeps from one
  // transaction to the next may be gone, transient objects, too: a promise that there is no such pointer. Nor may transient
  // objects be written to outside of transactions while a collection begins.
  handles,
};

struct collection_options {
  bool dry_run = false;  // only find out what is garbage
  program_roots roots = program_roots::all_memory;
  std::uint64_t objects_at_once =
      4096;           // that a transaction destroys, at most; at least 1. Fewer if that takes over 1 ms
  bool trim = false;  // in the end, as store::trim() does: the disk space of what is free goes back to the file system
  // Phases "marking", "clearing" (weak references), "sweeping", "trimming"; called by the collector's thread. It may use the store,
  // but must end its transactions; in the end of marking, when done == total, the collector waits until no transaction is open.
  rvm::progress_callback on_progress = {};
};

// What a collection has found, or done.
struct collect_report {
  std::uint64_t kept = 0, kept_bytes = 0;  // persistent objects. Bytes include headers, here and below
  std::uint64_t garbage = 0, garbage_bytes = 0;
  std::vector<type_count> types;            // of the garbage, most bytes first
  std::vector<type_count> kept_types;       // of what is kept, the same
  std::uint64_t weak_cleared = 0;           // weak references' objects (tenure/weak.hpp) that were garbage
  std::uint64_t finalization_messages = 0;  // of queues (tenure/finalization_queue.hpp); what they keep is not garbage
  std::uint64_t transactions = 0;
  double seconds = 0;
  // Of an open store only.
  std::uint64_t transient_garbage = 0, transient_garbage_bytes = 0;  // objects that were never persistent
  std::uint64_t scanned_bytes = 0;  // of the program's memory, for words that may be pointers
  bool was_copied = false;          // by a copy of the process; otherwise in the stop
  double stopped_seconds = 0;       // for how long all threads stood still
  double longest_transaction = 0;   // seconds
  std::uint64_t trimmed_bytes = 0;  // of disk space
};

// What a store's databases have, in bytes.
struct space_report {
  std::uint64_t objects = 0, object_bytes = 0;       // persistent ones, garbage or not; bytes include headers
  std::vector<type_count> types;                     // of these, most bytes first
  std::uint64_t transient = 0, transient_bytes = 0;  // objects that are not persistent
  std::uint64_t free_bytes = 0;  // in blocks that were used: between objects, and where there are none
  std::uint64_t bookkeeping_bytes = 0, file_bytes = 0;  // file_bytes: the length of the files
  // Of object_bytes. What has become persistent since the last collection counts as garbage in the part that was garbage of what
  // had become persistent before it. 0: there was no collection since the store was opened. A dry run of one knows.
  std::uint64_t garbage_estimate = 0;
};

// When a store is collected without being asked.
struct automatic_collection {
  bool enabled = false;
  program_roots roots = program_roots::all_memory;
  bool trim = false;  // each time; what was given back costs a sync when it is used again
  // When objects of so many bytes became persistent since the last time, and at least this part of what it left, in percent.
  // Objects that never persist do not count: who makes many of them calls store::collect().
  std::uint64_t after_bytes = std::uint64_t{64} << 20;
  std::uint32_t after_percent = 50;
  // Called by the collector's thread, which waits. What they throw is ignored.
  callback<void(const collect_report&)> on_collected = {};
  // It could not be done, and will be tried again. Not called because of close().
  callback<void(const error&)> on_put_off = {};
};

}  // namespace tenure
