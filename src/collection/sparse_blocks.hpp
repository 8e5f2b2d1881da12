// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The mostly empty blocks of a store from which objects are to be moved, and where persistent references lead into them
// [PM3 §4]. A collection chooses the blocks, looks at all references once, and is told by commits of those that change.
//
// Objects are named by databases and granules: lists of addresses would keep them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

#include <tenure/rvm.hpp>

#include "objects/database_set.hpp"
#include "objects/references.hpp"

namespace tenure::heap {

// A granule of some database.
class place {
 public:
  place(std::size_t database, address home, address at)
      : bits_(std::uint64_t{database} << database_shift | (at - home) / granule) {}
  [[nodiscard]] std::size_t database() const { return bits_ >> database_shift; }
  [[nodiscard]] address in(address home) const {
    return home + (bits_ & ((std::uint64_t{1} << database_shift) - 1)) * granule;
  }
  friend auto operator<=>(const place&, const place&) = default;
  struct hash {
    std::size_t operator()(const place& p) const { return std::hash<std::uint64_t>()(p.bits_); }
  };

 private:
  static constexpr unsigned database_shift = 40;  // a database has at most 2^36 granules
  std::uint64_t bits_;
};

struct sparse_block {
  std::size_t database = 0;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;      // of its objects
  std::vector<place> incoming;  // with a part of a reference to it; some do not have it any more
  bool is_left = false;         // nothing is moved from there any more
};

// Used by the thread of a collection and by commits, one at a time.
class sparse_blocks {
 public:
  // Whether the objects to which objects of a type refer must stay where they are.
  using pins_targets = std::function<bool(const database_state& in, const known_type& type)>;

  sparse_blocks(database_set& store, pins_targets pins) : store_(store), pins_(std::move(pins)) {}
  // Births may use the blocks again.
  ~sparse_blocks();
  sparse_blocks(const sparse_blocks&) = delete;
  sparse_blocks& operator=(const sparse_blocks&) = delete;

  // Chooses blocks in use to at most so many percent, the emptiest first, until their objects have so many bytes. None, if
  // moving these would not empty a quarter of the blocks. Nothing is made there from now on. While nobody commits.
  void choose(std::uint32_t percent, std::uint64_t bytes);
  [[nodiscard]] std::size_t size() const { return blocks_.size(); }
  [[nodiscard]] sparse_block& operator[](std::size_t n) { return blocks_[n]; }
  // Nothing is moved from there any more, and births may use it.
  void leave(sparse_block& which) noexcept;

  // Notes the references that have a byte in [from, to) of a persistent object.
  void note_references(std::size_t database, const object_facts& object, std::uint64_t from, std::uint64_t to);
  // The same, of a copy of some of its elements.
  void note_references(std::size_t database, const known_type& type, address object, std::uint64_t begin,
                       std::span<const std::byte> elements);
  // The references that persistent objects have in a range of a page now.
  void note_changed(const rvm::memory_range& range);
  // Of what a commit has changed, and of what it makes persistent, after it has written the bookkeeping.
  void note_commit(std::span<const rvm::memory_range> changes);
  // The committed values of what an abort puts back.
  void note_abort(const rvm::transaction& tx, std::span<const rvm::memory_range> changes);

  // The object at this address, or behind whose end it is, stays where it is.
  void pin(address at);
  [[nodiscard]] bool is_pinned(std::size_t database, address object) const {
    return pinned_.contains(place(database, store_[database].home, object));
  }
  [[nodiscard]] std::size_t number_of(const database_state* of) const;

 private:
  struct candidate;
  [[nodiscard]] sparse_block* find(std::size_t database, address at);
  void note(std::size_t database, const known_type& type, address from, const reference_field& r);
  void add(sparse_block& to, place from);
  void pin_object(std::size_t database, address at);
  [[nodiscard]] std::vector<candidate> candidates(std::uint32_t percent) const;
  [[nodiscard]] std::uint64_t blocks_for(std::span<const candidate> chosen) const;

  database_set& store_;
  const pins_targets pins_;
  std::deque<sparse_block> blocks_;
  std::vector<std::vector<std::uint32_t>> numbers_;  // by database and block: 1 + that in blocks_; 0: none
  std::unordered_set<place, place::hash> pinned_;
};

}  // namespace tenure::heap
