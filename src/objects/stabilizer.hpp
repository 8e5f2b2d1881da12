// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stabilization [PM3 §5.1], the policy that moves nothing: finds what has become reachable from persistent objects,
// makes it persistent where it is, and declares what is to be logged. One is made for each attempt to commit.
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include <tenure/rvm.hpp>

#include "objects/database_set.hpp"
#include "objects/hidden_fields.hpp"

namespace tenure::heap {

class stabilizer {
 public:
  // `hidden`: has what is to be put back once the values are captured.
  stabilizer(database_set& store, rvm::transaction& tx, hidden_fields& hidden)
      : store_(store), tx_(tx), hidden_(hidden) {}

  // All of it. Throws errc::cannot_persist, with the path from a root, if something that is reachable from a persistent
  // object is not in the store or was destroyed; the transaction is as before then, after undo().
  void run(std::span<const rvm::memory_range> changes);
  // Why a reference cannot persist, and what to do about it.
  struct refusal_reason {
    const char* what;
    const char* advice;
  };
  // Takes back what run() wrote to the bookkeeping.
  void undo() noexcept;
  // The commit is captured: what was promoted is persistent. Adds to the counters.
  void committed(store_statistics& counts);

 private:
  struct reference {
    address from;          // the object that has it
    std::uint64_t offset;  // where in it
    const void* to;
  };
  struct written {
    std::byte* at;
    std::size_t length, saved;
  };

  void trace_changes(std::span<const rvm::memory_range> changes);
  // Follows the references of an object that lie in [from, to) of it.
  void trace_object(database_state& in, address object, std::uint64_t from, std::uint64_t to);
  void follow(const reference& r, bool ambiguous);
  void promote(database_state& in, transient_block& y, address object);
  void trace_pending();
  [[noreturn]] void refuse(const reference& r, const refusal_reason& why);
  // Refuses references to what was destroyed, in whatever object, if the store was opened so.
  void refuse_destroyed_references();
  // Descriptions of the types of what was promoted.
  void describe_types();
  void describe(database_state& in, known_type& what);
  void promote_tables();

  void write_bookkeeping(database_state& in);
  void write_block(database_state& in, transient_block& y);
  void open_zone(database_state& in, std::uint64_t zone);
  void free_destroyed(database_state& in);
  void declare_objects(database_state& in, transient_block& y);
  // Large volumes of new blocks go straight to the segment.
  [[nodiscard]] bool worth_bulk(database_state& in, std::span<transient_block* const> blocks) const;
  void write_in_bulk(database_state& in, transient_block& y);
  void flush_bulk();
  void hide_transients(const known_type& of, address object);
  // About to write there: the old bytes are kept, the new ones logged.
  template <class T>
  T& write(T& object) {
    declare_write(&object, sizeof object);
    return object;
  }
  void declare_write(void* at, std::size_t length);

  database_set& store_;
  rvm::transaction& tx_;
  hidden_fields& hidden_;
  std::vector<std::pair<database_state*, address>> pending_;
  std::vector<known_type*> described_;  // by this commit
  std::vector<database_state*> grown_;  // their type tables' arrays are to be promoted
  // Arrays of type tables that larger ones replace, and the sets of what is gone that they were put in.
  std::vector<std::pair<std::unordered_set<address>*, address>> replaced_;
  std::vector<std::pair<database_state*, known_type*>> undescribed_;
  std::vector<written> writes_;
  std::vector<std::byte> saved_;
  std::vector<std::vector<std::uint64_t>> freed_;  // blocks, for each database
  // A run of pages that follow each other, and what is to be written there.
  struct {
    database_state* in = nullptr;
    address from = 0, to = 0;
    std::vector<std::span<const std::byte>> pieces;
  } bulk_;
  std::unordered_set<address> destroyed_;  // destroyed or retired in this transaction
  struct tally {
    known_type* of;
    std::uint64_t objects, bytes;
  };
  std::uint64_t objects_ = 0, bytes_ = 0, conservative_ = 0;
  std::vector<tally> tallies_;
};

// How the object can be reached: "root by-name -> map<...>.root_ -> ...". Empty if it cannot, or if that is not found out with
// a bounded effort: among 10^7 objects the full search took 9 s and 1.8 GiB.
[[nodiscard]] std::string find_path(const database_set& store, address object);

}  // namespace tenure::heap
