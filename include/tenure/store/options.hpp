// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How stores and databases are made and opened.
#pragma once

#include <cstdint>
#include <string>

#include <tenure/rvm/map_options.hpp>
#include <tenure/rvm/options.hpp>
#include <tenure/store/collection.hpp>

namespace tenure {

// How a database is made.
struct database_options {
  // The bytes of addresses that are reserved for the database: the limit of its growth. A power of two from 256 MiB to
  // 1 TiB (errc::bad_option). The first 16 MiB are for virtual functions, the rest for objects and their bookkeeping.
  std::uint64_t reservation = std::uint64_t{1} << 40;
  // The address at which the reservation begins: a multiple of its size (errc::misaligned). 0: chosen at random, so
  // that databases of different stores rarely collide. Throws errc::address_taken if something is mapped there.
  std::uint64_t home = 0;
};

// Thresholds for the store's choices between ways to do the same work. The defaults were measured. Tests choose other
// values, to reach with few objects what otherwise takes many.
struct store_tuning {
  std::uint64_t bulk =
      std::uint64_t{8} << 20;               // bytes of new objects from which on a commit writes them to the database
                                            // straight away, not to the log; 0: always
  std::uint32_t refill = 75;                // blocks in use to at most this part, in percent, get new objects again
  std::uint64_t typed_from = 4096;          // bytes of new objects of one type and size that get headers, before such
                                            // objects get pages of their own without
  std::uint64_t least_hole = 128;           // bytes between two objects that are worth filling
  std::uint64_t most_blocks = 64;           // taken at once for small objects; at least 1
  std::uint64_t old_blocks_at_once = 1024;  // of earlier processes, examined when blocks are needed; at least 1
  std::uint64_t marked_at_once = 32;  // objects that a collection looks at together if no commit waits; at least 1
  bool headed = false;                // a new database's first zone is as in one that was upgraded; for tests
};

// Whether a commit that destroys objects looks for references to them in all persistent objects.
enum class destroy_check {
  in_debug_builds,  // if the library is a debug build
  never,            // looks only in objects that the transaction has written
  always,           // reads the whole store: about 20 ns an object that is in memory
};

// What becomes of a store that has a class of the program in another layout.
enum class schema_change {
  refuse,   // errc::schema_mismatch, with the differences
  convert,  // it is written anew before it is opened, as evolve.hpp says
};

// How new objects become persistent.
enum class stabilization {
  in_place,  // where they were made. Every pointer to them stays valid
  // As PM3 does it [PM3 §5.1]: a commit makes them once more, breadth first from what refers to them, so that what is used
  // together lies together, in denser pages.
  //
  // **After the commit, a new object has another address, unless the program has a handle to it, or the committing thread's stack
  // or registers a word that looks like a pointer to it.** A pointer in memory of malloc, in static data, or on another
  // thread's stack leads to the old object, which nobody looks at any more. collection.quarantine says what becomes of the old
  // one: hold keeps it until a second collection, so that what is new takes twice the space, check fills it with 0xd9, none uses its
  // space at once. A commit that stores a pointer to it fails (errc::cannot_persist), but with none. What stays where it is for
  // other reasons: see evacuation. A commit that fails moves nothing. Needs collection.roots = program_roots::handles.
  copying,
};

// How a store is opened.
struct store_options {
  rvm::open_mode mode = rvm::open_mode::open_or_create;
  // Programs with the older classes cannot open a converted store. Not with open_mode::read_only: then it is refused.
  schema_change evolve = schema_change::refuse;
  database_options create = {};  // the default database, when the store is created
  // The log and its tuning. Its `mode` is not used. Options for making a log (its usual size, 64 MiB) have an
  // effect when the store is created.
  rvm::options memory = {};
  // false: pages that are written often stay writable between transactions. The next begin() finds a stray write to
  // such a page, takes it back and throws errc::stray_write. true: no page stays writable, so every stray write ends
  // the process where it happens.
  bool strict_tracking = false;
  // Databases of at most this many bytes, and at most a quarter of memory, are read from the disk as a whole, in the
  // background, when the store is first used. Of larger ones, only the touched pages are read, and those that the
  // kernel reads with them; if they have more bytes than half of the memory, those that follow where the program reads one
  // page after the other (memory.background). 0: the same for all databases.
  std::uint64_t read_ahead = std::uint64_t{256} << 20;
  // Whether the program announces its writes, by its compiler or by hand (docs/barriers.md). Not with strict_tracking. The
  // library's own writes are announced always. memory.on_unseen_store hears of writes that were not.
  rvm::write_barriers barriers = rvm::write_barriers::none;
  // Bytes, a power of two from 16 to 4096: see rvm::map_options::card_size.
  std::size_t card_size = 64;
  // A file into which close() writes in which order the program has used the parts of the databases, for
  // object_order::by_access (tenure/rewrite.hpp). It is replaced; opening throws if it cannot be made. Only with
  // open_mode::read_only (errc::bad_option). A part is a page, or more in databases of more than 64 MiB; its first use costs a
  // fault, some microseconds, and a system call that is given memory of a part that was not used yet (write, send) fails with
  // EFAULT. Each part may be a mapping of the process: if the kernel allows no more (vm.max_map_count), the file says that it
  // was cut short, and so does rewrite_report::accesses_cut_short.
  std::string record_accesses = {};
  // How modified pages are found. For tests and measurements.
  rvm::tracking_mechanism mechanism = rvm::tracking_mechanism::choose;
  // Objects that nothing refers to any more are destroyed in the background (store::collect).
  automatic_collection collection = {};
  stabilization stabilize = stabilization::in_place;
  destroy_check check_destroyed = destroy_check::in_debug_builds;
  store_tuning tune = {};
};

}  // namespace tenure
