// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Marks the objects of a store to which roots lead, from a snapshot at the beginning. What is not marked in the end is garbage.
// It may refer to anything, also to what is gone [heap.garbage.opaque].
//
// In a store in which transactions go on, the marker sees objects as they are when it comes to them. So whoever takes away a
// reference that was committed has it marked first (mark_target), and new objects count as marked (granule_bits that birth
// fills). The marker looks at the committed bookkeeping only.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "collection/grey_objects.hpp"
#include "collection/root_snapshot.hpp"
#include "objects/database_set.hpp"
#include "objects/granule_bits.hpp"
#include "objects/object_walk.hpp"
#include "os/cleared_memory.hpp"

namespace tenure::heap {

inline const std::atomic<std::uint32_t> nobody_waits{0};

// One thread at a time, but for what a follower does.
class marker {
 public:
  enum class if_nothing { refuse, ignore };
  class follower;

  // Of all databases that the store has now. `how`: what becomes of an exact reference that leads to no object: refuse throws
  // errc::damaged. `followers`: at least 1; so many threads may follow together.
  marker(const database_set& store, if_nothing how, std::size_t followers = 1);
  ~marker();

  // What the named roots, the types and the headers refer to.
  void mark_named_roots();
  // What the snapshot has found. It must outlive the marker.
  void mark_roots(const root_snapshot& found);
  // Where a reference leads or led.
  void mark_target(stored_address to, bool may_be_end);
  // The object in which the address lies, persistent or not.
  void mark_object(address at);
  // Where the references of a persistent object lead.
  void mark_targets_of(const database_state& in, address object);
  // A transaction ends that may have written to this page. What the marker has followed there since the last one ended may have
  // been in between: it looks again [heap.collection.unchanged].
  void look_again_at(const database_state& in, address from, address to);
  void forget_followed();

  // Follows the references of so many objects that are marked; a large one counts as several, and may be followed in part only.
  // Fewer if `is_wanted` is not 0. Returns whether there are more.
  bool follow(std::uint64_t most, const std::atomic<std::uint32_t>& is_wanted = nobody_waits);
  // Some of the objects that follow() will look at next. Who reads a byte of each before spares it to wait for a disk.
  static constexpr std::size_t most_next = 32;
  [[nodiscard]] std::size_t next(std::span<address, most_next> objects) const;
  // Each may be used by a thread of its own, while nobody does anything else here.
  [[nodiscard]] std::deque<follower>& followers() { return followers_; }

  // From now on what is marked is garbage that somebody asks for once more: it may refer to anything.
  void expect_garbage() { is_among_garbage_ = is_reviving_ = true; }
  // Whether the persistent object in which the address lies was marked after that.
  [[nodiscard]] bool is_revived(address at) const;
  // Calls f(granule) for each cell of weak references (objects/weak_cells.hpp) that was followed.
  template <class F>
  void for_each_cell(F&& f) const {
    for (const marked_database& d : databases_)
      d.cells.for_each_while([&](address granule_of) {
        f(granule_of);
        return true;
      });
  }

  // A transient cell that becomes persistent: it may have been followed as a transient object.
  void note_cell(address cell);

  // Whether a reference was met to [begin, end) of a database, where no object is.
  [[nodiscard]] bool has_met(std::size_t database, address begin, address end) const;

  // The granules of a block with objects that are marked. What was not there when marking began counts as marked.
  [[nodiscard]] start_bits marked_in(const database_state& in, std::uint64_t block) const;
  [[nodiscard]] std::uint64_t marked() const;

 private:
  struct marked_database {
    marked_database(const database_state& database, std::uint64_t blocks)
        : of(&database),
          marks(database.home, blocks),
          has_transient_references(database.home, blocks),
          ends(database.home, blocks),
          cells(database.home, blocks),
          missed_low(database.home, blocks),
          missed_high(database.home, blocks),
          revived(database.home, blocks) {}
    const database_state* of;
    granule_bits marks, has_transient_references, ends, cells;  // ends: of mark_end()
    // Where references lead to no object: the first and the other words of granules.
    granule_bits missed_low, missed_high;
    granule_bits revived;
    [[nodiscard]] granule_bits& missed_in(address word) { return (word & 8) == 0 ? missed_low : missed_high; }
    [[nodiscard]] const granule_bits& missed_in(address word) const {
      return (word & 8) == 0 ? missed_low : missed_high;
    }
  };
  // npos: none.
  static constexpr std::size_t npos = ~std::size_t{0};
  [[nodiscard]] std::size_t number_of(address at, std::size_t guess = 0) const;
  void follow_ends();
  [[nodiscard]] bool has_grey() const;
  [[noreturn]] void refuse_damaged(address object) const;
  [[noreturn]] void refuse(address from, std::uint64_t offset, stored_address to) const;

  const database_set& store_;
  const if_nothing how_;
  std::deque<marked_database> databases_;
  std::deque<follower> followers_;
  grey_rest rest_;
  std::span<const transient_reference> transient_references_;
  std::atomic<bool> has_ends_{false};
  bool is_among_garbage_ = false, is_reviving_ = false;
};

// What one thread has of the work: grey objects, and what it has met on its way. Several use different ones at the same time.
class alignas(64) marker::follower {
 public:
  explicit follower(marker& of);
  follower(const follower&) = delete;
  follower& operator=(const follower&) = delete;

  // As marker::follow(), of its own objects. Returns how many of `most` are left: its objects are at an end then.
  std::uint64_t follow(std::uint64_t most, const std::atomic<std::uint32_t>& is_wanted = nobody_waits);
  [[nodiscard]] bool has_grey() const { return !grey_.empty() || rest_of_large_.object != 0; }
  // Objects that another one had.
  void take_over(std::span<const address> objects);
  [[nodiscard]] grey_objects& grey() { return grey_; }
  [[nodiscard]] const grey_objects& grey() const { return grey_; }
  [[nodiscard]] std::uint64_t marked() const { return marked_; }

 private:
  friend class marker;
  // The pages on which objects were followed lately.
  class followed_pages {
   public:
    followed_pages(address home, std::uint64_t blocks) : home_(home), bits_(blocks * pages_in_block / 64 + 1) {}
    void add(address from, address to) {
      for (std::uint64_t page = (from - home_) / typed_page_size; page <= (to - 1 - home_) / typed_page_size; ++page)
        if (page / 64 < bits_.size() && !contains_page(page)) {
          bits_[page / 64] |= std::uint64_t{1} << (page % 64);
          pages_.push_back(static_cast<std::uint32_t>(page));
        }
    }
    [[nodiscard]] bool contains(address at) const {
      const std::uint64_t page = (at - home_) / typed_page_size;
      return page / 64 < bits_.size() && contains_page(page);
    }
    void clear() {
      for (const std::uint32_t page : pages_) bits_[page / 64] = 0;
      pages_.clear();
    }

   private:
    [[nodiscard]] bool contains_page(std::uint64_t page) const { return (bits_[page / 64] >> (page % 64) & 1) != 0; }
    address home_;
    std::vector<std::uint64_t> bits_;
    std::vector<std::uint32_t> pages_;
  };
  // A reference that was met. Where some lead is looked up together, while the processor fetches what is known of that: one after
  // the other, marking took a quarter longer.
  struct met_reference {
    address from;
    reference_field what;
  };
  struct rest_of_object {
    address object = 0;  // 0: none
    std::uint64_t begin = 0;
  };
  [[nodiscard]] std::size_t number_of(address at) {
    const std::size_t n = of_.number_of(at, last_);
    if (n != npos) last_ = n;
    return n;
  }
  void mark(std::size_t database, address object);
  // Returns whether an object is there.
  bool mark_persistent(stored_address to);
  // An object that a word of unknown layout may mean the end of. If references are judged, it is followed last: it may be
  // garbage that was not swept yet, and refer to anything.
  void mark_end(stored_address end);
  void meet(address from, const reference_field& what);
  void mark_met();
  // These return how many bytes were looked at.
  std::uint64_t follow_object(address object);
  std::uint64_t follow_rest(const rest_of_object& of);
  // Of [begin, begin + most) of the object. What comes behind is in rest_of_large_ then.
  std::uint64_t mark_targets_of(const database_state& in, address object, std::uint64_t begin, std::uint64_t most);

  static constexpr std::uint64_t bytes_of_an_object = 128, most_at_once = 4096;
  marker& of_;
  grey_objects grey_;
  rest_of_object rest_of_large_;
  os::cleared_vector<met_reference> met_;
  std::deque<followed_pages> followed_;  // by database
  std::uint64_t marked_ = 0;
  std::size_t last_ = 0;  // database that an address was in
};

}  // namespace tenure::heap
