// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Free space of the store. The disk says only that free slots are slots. Which of them are free is found when the store
// is opened, and kept in memory.
//
// A transaction that makes slots takes an area for itself and cuts the slots from it, one after the other. So they are
// adjacent, their ranges merge in the log, and a large save is sequential. The rest of the area becomes one free slot.
// An area inside a larger free slot is first cut off by a separate transaction, which is ordered before any commit that
// could need it. So the chain of slots is valid after every prefix of the log [pobj.slot.chain].
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
  // true: the committed chain goes from `begin` to `end` in one step, so that everything between may be overwritten.
  bool is_one_slot = false;
};

class space {
 public:
  // The sizes of areas. A free slot up to `small` is taken whole; a longer one is cut. A transaction that has taken
  // much takes `largest` at a time.
  struct limits {
    std::uint64_t small, largest;
  };
  space(rvm::memory& memory, rvm::region& region, std::string path, const limits& how)
      : memory_(memory), region_(region), base_(region.data()), path_(std::move(path)), limits_(how) {}

  [[nodiscard]] std::byte* at(position p) const { return base_ + p; }
  [[nodiscard]] slot_word word_at(position p) const { return {load_word(at(p))}; }
  // Writes the word, which the caller has declared.
  void set_word(position p, slot_word w) const { store_word(at(p), w.bits); }
  [[nodiscard]] rvm::region& region() const { return region_; }

  // Adds free space, and merges it with its neighbours. If there is no memory even for the note, the space is not used
  // until the store is opened again, which finds it. The end of a transaction must not fail.
  void add(position begin, position end) noexcept;
  // An area for a slot of `length` bytes, for a transaction that has taken `taken` bytes so far. Grows the store.
  // Throws POBJ_ETOOBIG if the store may not grow so far; then it has not grown.
  [[nodiscard]] area take(std::uint64_t length, std::uint64_t taken);
  // Writes the words that make [begin, end) free slots. From `begin` on, the caller has declared 8 bytes at every
  // multiple of largest_free.
  void write_free(position begin, position end) const;
  // The serial of a new slot. It differs from the last one at this place, and probably from those before.
  [[nodiscard]] std::uint64_t next_serial(position p);
  // Each execution begins with another serial.
  void begin_serials(std::uint64_t execution) { serial_ = execution * 0x9e3779b97f4a7c15 >> 32; }

 private:
  using places = std::map<position, position>;                 // begin, end
  using sizes = std::set<std::pair<std::uint64_t, position>>;  // length, begin
  // Removes one free slot from both.
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
  std::byte* const base_;  // does not move when the region grows
  std::string path_;
  const limits limits_;
  places by_place_;
  sizes by_size_;
  std::uint64_t serial_ = 0;
};

}  // namespace tenure::pobj
