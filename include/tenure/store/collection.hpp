// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Garbage collection of an open store: how it is asked for, and what it tells.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
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
  // Its handles (tenure/store/handle.hpp), and transient fields of what is kept. Nobody stands still, but everything else that the program keeps from one
  // transaction to the next may be gone, transient objects, too: a promise that there is no such pointer. Nor may transient
  // objects be written to outside of transactions while a collection begins.
  handles,
};

// Where a collection has taken objects, nothing new is made at once. So whoever has hidden a pointer to one of them does not read
// another object there, and the next collection names what is still used.
enum class quarantine {
  none,  // the space is used again at once
  // Not before another collection has found that nothing leads there, or the store was opened again. It costs the space of what is
  // garbage until then.
  hold,
  // And what persistent objects were is overwritten (the first 4096 bytes, in the log, too), and looked at by the next collection.
  // For tests: a pointer that is read from such an object is 0xd9d9d9d9d9d9d9d9, and leads nowhere.
  check,
};

// Something leads to an object that an earlier collection had taken, or has written to it. A word that only looks like a pointer
// may seem to lead there.
struct use_after_collection {
  const void* object = nullptr;  // where it was
  std::string type;              // empty: not known any more
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point taken;  // by the collection, or by a later one that took another one beside it
  // The last transaction that had begun when that collection did, since the store was opened: it or an earlier one has dropped
  // the object. `tenure log history` shows them. 0: the object was transient.
  std::uint64_t transaction = 0;
  bool is_referred_to = false;
  bool was_changed = false;  // with quarantine::check
};

// Whether a collection moves objects, and which: those in mostly empty blocks, so that the blocks become free [PM3 §4].
//
// **An object that moves has another address afterwards.** References in persistent objects follow it, at all places and of all
// kinds. No other pointer does. So an object stays where it is as long as the program has a handle to it or to a part of it; as a
// named root; if a transient object, a transient field, a weak reference, a finalization queue or a word of unknown layout refers
// to it; if it is a key of a container whose order or hash depends on addresses, or lies beside such a key; if memory that such a
// key owns, as that of a vector, refers to it. With program_roots::all_memory also while any word of the program's memory looks like a pointer to it.
//
// With evacuation, whoever reads does so in a transaction, and reads a pointer anew in the next one, unless a handle or, with
// all_memory, a word of its memory has it all the time. What the program computes from addresses, and stores, like an own hash
// of them in a vector, or an order of objects by the addresses in them, cannot be found: give such objects a handle or a number.
struct evacuation {
  bool enabled = false;
  std::uint32_t sparse_percent = 50;  // blocks that are in use to this part at most; from 1 to 90
  // That a transaction moves, at most, but for a block; at least 1. Nobody else has the store meanwhile.
  std::uint64_t bytes_at_once = std::uint64_t{1} << 20;
  // It moves fewer, as few as a block, if that takes longer: each page with a reference to what moves is written to. But each
  // transaction first looks at all handles and transient objects, some 20 ms for 100 000 handles or a million objects, and may move
  // for as long as that took. Not with all_memory, where each looks at all memory of the program first.
  std::chrono::microseconds pause{5000};
  std::uint64_t most_bytes = std::uint64_t{256}
                             << 20;  // that a collection moves. Needs 8 bytes for each reference to them
};

struct collection_options {
  bool dry_run = false;  // only find out what is garbage
  program_roots roots = program_roots::all_memory;
  tenure::quarantine quarantine = tenure::quarantine::hold;  // of what it takes
  // That a transaction destroys, at most; at least 1. Fewer if that takes over 1 ms, and a quarter of what it waited for others; or
  // as long as it waited, if the program has made so much meanwhile that the next collection is due.
  std::uint64_t objects_at_once = 1 << 16;
  // Threads that mark, from 1 to 64. More than one mark together while no commit waits and nothing is read from the disk. Each
  // needs 8 MiB.
  std::uint32_t markers = 1;
  // In the end, as store::trim() does: the disk space of what is free goes back to the file system. What is in quarantine is not.
  bool trim = false;
  tenure::evacuation evacuation = {};  // after sweeping. Not with dry_run
  // Phases "marking", "clearing" (weak references), "sweeping", "choosing" (what is to be moved), "looking" (for references to it),
  // "moving", "trimming"; called by the collector's thread. It may use the store, but must end its transactions; in the end of
  // marking, when done == total, and after "choosing", the collector waits until no transaction is open.
  rvm::progress_callback on_progress = {};
};

// What a collection has found, or done.
struct collect_report {
  std::uint64_t kept = 0, kept_bytes = 0;  // persistent objects. Bytes include headers, here and below
  std::uint64_t garbage = 0, garbage_bytes = 0;
  std::vector<type_count> types;       // of the garbage, most bytes first
  std::vector<type_count> kept_types;  // of what is kept, the same
  // Of a dry run: the garbage that no other garbage refers to, which is what the program has dropped, most objects first; the rest
  // is garbage because of it, or refers to itself in circles. The first 64 of these objects.
  std::vector<type_count> dropped;
  std::vector<const void*> dropped_objects;
  // Not counted by a dry run.
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
  // Of evacuation: what was moved; what stayed in sparse blocks, because it must; blocks that were emptied, of 32 KiB each; how long
  // the longest of its transactions held others up.
  std::uint64_t moved = 0, moved_bytes = 0, pinned = 0, emptied_blocks = 0;
  double longest_move = 0;  // seconds
  // Of what earlier collections had put into quarantine: where nothing leads, so that the space is free; the number of objects that
  // are still used, and stay; the first 64 of these. Each is told once.
  std::uint64_t confirmed = 0, confirmed_bytes = 0;
  std::uint64_t used_after_collection = 0;
  std::vector<use_after_collection> uses;
};

// What a store's databases have, in bytes.
struct space_report {
  std::uint64_t objects = 0, object_bytes = 0;       // persistent ones, garbage or not; bytes include headers
  std::vector<type_count> types;                     // of these, most bytes first
  std::uint64_t transient = 0, transient_bytes = 0;  // objects that are not persistent
  std::uint64_t free_bytes = 0;  // in blocks that were used: between objects, and where there are none
  std::uint64_t bookkeeping_bytes = 0, file_bytes = 0;   // file_bytes: the length of the files
  std::uint64_t quarantined = 0, quarantined_bytes = 0;  // objects that collections have taken; of free_bytes, mostly
  // Of object_bytes. What has become persistent since the last collection counts as garbage in the part that was garbage of what
  // had become persistent before it. 0: there was no collection since the store was opened. A dry run of one knows.
  std::uint64_t garbage_estimate = 0;
};

// When a store is collected without being asked.
struct automatic_collection {
  bool enabled = false;
  program_roots roots = program_roots::all_memory;
  tenure::quarantine quarantine = tenure::quarantine::hold;
  std::uint32_t markers = 1;  // as collection_options::markers
  bool trim = false;          // each time; what was given back costs a sync when it is used again
  tenure::evacuation evacuation = {};
  // When objects of so many bytes became persistent since the last time, and at least this part of what it left, in percent.
  // Objects that never persist do not count: see young_bytes.
  std::uint64_t after_bytes = std::uint64_t{64} << 20;
  std::uint32_t after_percent = 25;
  // When objects of so many bytes were made since the last time, whether they became persistent or not, a commit takes back what
  // is not persistent and cannot be reached from a handle or a persistent object: in its own thread, whether `enabled` or not, without
  // quarantine. Some 100 to 200 us for a MB. 0: no commit does. With program_roots::handles only: after each commit, handles are all that
  // the program has of objects that are not persistent. A thread that makes some outside of write transactions does so in a read
  // transaction, until it has a handle: nobody commits meanwhile. Not so after a checkpoint(), which takes nothing.
  std::uint64_t young_bytes = 0;
  // Called by the collector's thread, which waits. What they throw is ignored.
  callback<void(const collect_report&)> on_collected = {};
  // It could not be done, and will be tried again. Not called because of close().
  callback<void(const error&)> on_put_off = {};
};

}  // namespace tenure
