// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What refers to a store's objects from outside of its committed image, at one moment [PM3 §4.1]: *ambiguous roots*, which are
// all words of the process's writable memory that may be pointers to objects (stacks, with the registers of stopped threads;
// static data; malloc's memory; memory shared with others); and what transient objects and transient fields refer to, which
// nobody logs.
//
// All other threads are stopped for the moment. A copy of the process (os/process_copy.hpp), which has the store's memory as
// it was, looks at all of it while they go on. Where there can be no copy, they stay stopped meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include <tenure/store/collection.hpp>

#include "objects/database_set.hpp"
#include "objects/granule_bits.hpp"
#include "os/process_copy.hpp"
#include "os/writable_memory.hpp"

namespace tenure::heap {

// An object that is transient, or has transient fields, refers to another one. Objects are named by their granules.
struct transient_reference {
  address from, to;
  friend auto operator<=>(const transient_reference&, const transient_reference&) = default;
};

class root_snapshot {
 public:
  // From here to take() nobody writes, and the caller has the births locked.
  explicit root_snapshot(const database_set& store);
  ~root_snapshot();
  root_snapshot(const root_snapshot&) = delete;
  root_snapshot& operator=(const root_snapshot&) = delete;

  // Throws errc::not_stopped if a thread cannot be stopped.
  void take(program_roots which);
  // Waits for the copy. Throws errc::not_stopped if it failed.
  void finish();

  // After finish():
  // Calls f(granule) for each object of the database to which an ambiguous root leads.
  template <class F>
  void for_each_root(std::size_t database, F&& f) const {
    databases_[database].roots.for_each_while([&](address granule_of) {
      f(granule_of);
      return true;
    });
  }
  // Whether a word that may be a pointer leads to [begin, end) of the database: an ambiguous root, or of a transient object or
  // field if no object is there.
  [[nodiscard]] bool has_word_to(std::size_t database, address begin, address end) const;
  // In the order of objects.
  [[nodiscard]] std::span<const transient_reference> transient_references() const { return sorted_; }

  struct facts {
    std::uint64_t stopped_ns = 0;     // how long the other threads stood still
    std::uint64_t scanned_bytes = 0;  // for ambiguous roots
    bool was_copied = false;          // by a copy of the process
    int why_not = 0;                  // errno, if not
  };
  [[nodiscard]] const facts& about() const { return facts_; }

 private:
  struct scanned_database {
    scanned_database(const database_state& database, std::uint64_t blocks, std::byte* hits_at, std::byte* roots_at);
    [[nodiscard]] bool contains(address at) const { return at - home < bytes; }

    const database_state& of;
    const address home;
    const std::uint64_t bytes;  // that can have objects
    std::uint64_t* const hits;  // a bit for each word to which a root leads
    granule_bits roots;
  };
  // In memory that the copy shares.
  struct found {
    std::uint64_t references, scanned_bytes;
    bool is_complete, has_no_room, is_done;
  };

  void leave_out_of_forks() noexcept;
  void add_handle(const void* to) noexcept;
  // In the copy, or while all others are stopped. They neither allocate nor lock.
  void scan() noexcept;
  void scan_for_hits(os::memory_stretch in) noexcept;
  void find_objects() noexcept;
  void resolve_hits(scanned_database& in) noexcept;
  void add_transients(const scanned_database& in) noexcept;
  void add_transient_fields(const scanned_database& in) noexcept;
  void add_references_of(const database_state& in, const object_facts& object, bool is_transient) noexcept;
  void add_possible_reference(address from, address to) noexcept;
  void add_reference(address from, address to) noexcept;
  [[nodiscard]] bool add_if_there(address from, address to) noexcept;
  [[nodiscard]] const scanned_database* database_at(address at) const noexcept;
  static void note_hit(const scanned_database& in, address at) noexcept;

  std::vector<os::memory_stretch> not_roots_;  // in the order of addresses
  std::deque<scanned_database> databases_;
  os::shared_memory memory_;  // for all of these
  found* found_ = nullptr;
  program_roots which_ = program_roots::all_memory;
  transient_reference* references_ = nullptr;
  std::uint64_t room_ = 0;  // for references
  std::span<const transient_reference> sorted_;
  os::process_copy copy_;
  facts facts_;
};

}  // namespace tenure::heap
