// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Free space of the store. What is on the disk is only that free slots are slots: who is free is found when the store is
// opened, and kept here in memory.
//
// A transaction that makes slots takes an area, for itself alone, and carves them from it one after the other: so they lie
// next to each other, their ranges merge in the log, and a large save is sequential. What it leaves is one free slot again.
// An area that is part of a larger free slot is cut off first, by a transaction of its own, which is ordered before any
// commit that could need it: the chain of slots holds after every prefix of the log [pobj.slot.chain].
//
// The store's lock guards everything.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <tenure/rvm.hpp>

#include "pobj/object.hpp"

namespace tenure::pobj {

// Space that a transaction owns: [begin, end), of which [begin, next) has slots.
struct area {
  position begin = 0, end = 0, next = 0;
  // true: the committed chain of slots goes from `begin` to `end` in one step, so that all between may be overwritten.
  bool is_one_slot = false;
};

class space {
 public:
  // How large areas are: free slots up to `small` are taken as they are, longer ones are cut; `largest` is what a
  // transaction takes at a time once it has taken much.
  struct limits {
    std::uint64_t small, largest;
  };
  space(rvm::memory& memory, rvm::region& region, std::string path, const limits& how)
      : memory_(memory), region_(region), base_(region.data()), path_(std::move(path)), limits_(how) {}

  [[nodiscard]] std::byte* at(position p) const { return base_ + p; }
  [[nodiscard]] slot_word word_at(position p) const { return {load_word(at(p))}; }
  // Writes the word; the caller has declared it.
  void set_word(position p, slot_word w) const { store_word(at(p), w.bits); }
  [[nodiscard]] rvm::region& region() const { return region_; }

  // Notes free space; merges it with its neighbours. Where not even memory for the note is left, the space is not used
  // before the store is opened again, which finds it: the end of a transaction must not fail.
  void add(position begin, position end) noexcept;
  // An area for a slot of `length` bytes, for a transaction that has taken `taken` bytes so far. Grows the store. Throws
  // POBJ_ETOOBIG if it may not grow so far; then it has not grown.
  [[nodiscard]] area take(std::uint64_t length, std::uint64_t taken);
  // Writes the words that make [begin, end) free slots; the caller has declared 8 bytes at each largest_free from `begin`.
  void write_free(position begin, position end) const;
  // For a new slot: another one than what was there last, and one that the slots before that are unlikely to have had.
  [[nodiscard]] std::uint64_t next_serial(position p);
  // Each execution begins elsewhere.
  void begin_serials(std::uint64_t execution) { serial_ = execution * 0x9e3779b97f4a7c15 >> 32; }

 private:
  using places = std::map<position, position>;                 // begin, end
  using sizes = std::set<std::pair<std::uint64_t, position>>;  // length, begin
  // What is noted of one free slot, taken out of both.
  struct note {
    places::node_type place;
    sizes::node_type size;
  };
  [[nodiscard]] note remove(position begin, position end) noexcept;
  void insert(note&& n, position begin, position end) noexcept;
  [[nodiscard]] note make_note(position begin, position end);
  void cut(position begin, position middle, position end);
  void grow(std::uint64_t length);

  rvm::memory& memory_;
  rvm::region& region_;
  std::byte* const base_;  // stays, also when the region grows
  std::string path_;
  const limits limits_;
  places by_place_;
  sizes by_size_;
  std::uint64_t serial_ = 0;
};

}  // namespace tenure::pobj
