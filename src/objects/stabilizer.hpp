// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stabilization [PM3 §5.1] without moving objects: finds what has become reachable from persistent objects, makes it
// persistent where it is, and declares what will be logged. Each attempt to commit makes a new stabilizer.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <tenure/rvm.hpp>
#include <tenure/store/statistics.hpp>

#include "objects/address_lists.hpp"
#include "objects/database_set.hpp"
#include "objects/hidden_fields.hpp"

namespace tenure::heap {

class stabilizer {
 public:
  // `hidden` gets the fields that must be put back after the values are captured.
  stabilizer(database_set& store, rvm::transaction& tx, hidden_fields& hidden)
      : store_(store), tx_(tx), hidden_(hidden) {}

  // First finds out what becomes persistent. Throws errc::cannot_persist, with the path from a root, if an object that is
  // reachable from a persistent one is not in the store or was destroyed. After undo() the transaction is then as it was before.
  void trace(std::span<const rvm::memory_range> changes);
  // Then writes descriptions of the types of promoted objects.
  void describe();
  // Then writes the bookkeeping, and declares all of it.
  void write();
  // Whether objects are gone, of the program or of the table of types.
  [[nodiscard]] bool takes_away() const { return !destroyed_.empty() || !replaced_.empty(); }
  // Why a reference cannot persist, and what to do about it.
  struct refusal_reason {
    const char* what;
    const char* advice;
  };
  // Undoes what these have written to the bookkeeping.
  void undo() noexcept;
  // The commit is captured, so promoted objects are persistent. Adds to the counters.
  void committed(store_statistics& counts) noexcept;
  // That were promoted.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Cells of weak references (weak_cells.hpp) that become persistent, from trace() on.
  [[nodiscard]] std::span<const address> cells() const { return cells_; }

 private:
  struct reference {
    address from;          // the object that contains the reference
    std::uint64_t offset;  // of the reference in the object
    stored_address to;
  };
  struct written {
    std::byte* at;
    std::size_t length, saved;
  };

  void undo_writes() noexcept;  // the births locked
  void trace_changes(std::span<const rvm::memory_range> changes);
  // A new object may lie where a destroyed one was, to which stale bytes refer: the slot of a vector behind its last element,
  // for example. To store its address there changes nothing, but makes it reachable [heap.reference.unchanged].
  void trace_unchanged();
  // What becomes of a reference that leads to no object of the store: a word of unknown layout may be none. And an object that
  // such a word may mean the end of may be garbage, and refer to anything [heap.garbage.opaque].
  enum class if_nothing { refuse, ignore };
  // Follows those references of an object that lie in [from, to) of it.
  void trace_object(database_state& in, const known_type& type, address object, std::uint64_t size, std::uint64_t from,
                    std::uint64_t to, if_nothing how);
  // `from`: the database with the reference. `behind`: of what the object refers to that becomes persistent by it.
  void follow(database_state& from, const reference& r, if_nothing how, if_nothing behind = if_nothing::refuse);
  // The object there becomes persistent, if it is a new one.
  void follow_new(database_state& from, address to, if_nothing behind);
  void promote(database_state& in, transient_block& y, address object, if_nothing how);
  // The last of tallies_ becomes that of this type.
  void turn_to(database_state& in, std::uint32_t type);
  void trace_pending();
  [[noreturn]] void refuse(const reference& r, const refusal_reason& why);
  // Refuses references from any object to destroyed ones, if the store was opened with that option.
  void refuse_destroyed_references();
  void describe(database_state& in, known_type& what);
  void promote_tables();

  void write_bookkeeping(database_state& in);
  void write_block(database_state& in, transient_block& y);
  void open_zone(database_state& in, std::uint64_t zone);
  void free_destroyed(database_state& in);
  void count_down(database_state& in, std::uint64_t block, const start_bits& objects);
  void free_large(database_state& in, std::uint64_t block);
  [[nodiscard]] std::vector<std::uint64_t>& freed_in(const database_state& of);
  void declare_objects(database_state& in, transient_block& y);
  // Large volumes of new blocks are written straight to the segment.
  [[nodiscard]] bool worth_bulk(database_state& in, std::span<transient_block* const> blocks) const;
  void write_in_bulk(database_state& in, transient_block& y);
  void flush_bulk();
  void hide_transients(const known_type& of, const object_facts& object);
  // The caller is about to write to the object: keeps the old bytes, and declares the new ones.
  template <class T>
  T& write(T& object) {
    declare_write(&object, sizeof object);
    return object;
  }
  void declare_write(void* at, std::size_t length);

  database_set& store_;
  rvm::transaction& tx_;
  hidden_fields& hidden_;
  // Objects that are promoted, and whose references were not followed yet. What is known of them is kept: to look it up
  // again took a fifth of the time of a small object.
  struct pending {
    database_state* in;
    const known_type* type;
    address object;
    std::uint64_t size;
    if_nothing how;
  };
  address_list<pending> pending_;
  address_list<address> cells_;
  std::vector<known_type*> described_;  // types that this commit has described
  std::vector<database_state*> grown_;  // databases whose type tables have new arrays, which must be promoted
  // Arrays of type tables that larger ones replace, and the sets of removed objects that they were added to.
  address_list<std::pair<address_set*, address>> replaced_;
  std::vector<std::pair<database_state*, known_type*>> undescribed_;
  address_list<written> writes_;
  os::cleared_vector<std::byte> saved_;
  std::vector<std::vector<std::uint64_t>> freed_;  // blocks from which objects were removed, for each database
  // Consecutive pages, and the bytes that will be written to them.
  struct {
    database_state* in = nullptr;
    address from = 0, to = 0;
    address_list<std::span<const std::byte>> pieces;
  } bulk_;
  address_list<address> destroyed_;  // destroyed or retired in this transaction, in ascending order
  [[nodiscard]] bool is_destroyed(address object) const {
    return !destroyed_.empty() && std::ranges::binary_search(destroyed_, object);
  }
  // What was promoted of a type.
  struct tally {
    const database_state* in;
    std::uint32_t index;  // of the type in that database
    bool may_refer;       // whether its objects must be looked at
    known_type* of;
    std::uint64_t objects = 0, bytes = 0;
    [[nodiscard]] bool is_of(const database_state& database, std::uint32_t type) const {
      return index == type && in == &database;
    }
  };
  std::uint64_t objects_ = 0, bytes_ = 0;
  std::vector<tally> tallies_;
};

}  // namespace tenure::heap
