// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Marks the objects of a store to which roots lead, from a snapshot at the beginning. What is not marked in the end is garbage.
// It may refer to anything, also to what is gone [heap.garbage.opaque].
//
// In a store in which transactions go on, the marker sees objects as they are when it comes to them. So whoever takes away a
// reference that was committed has it marked first (mark_target), and new objects count as marked (granule_bits that birth
// fills). The marker looks at the committed bookkeeping only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "collection/root_snapshot.hpp"
#include "objects/database_set.hpp"
#include "objects/granule_bits.hpp"
#include "objects/object_walk.hpp"
#include "os/cleared_memory.hpp"

namespace tenure::heap {

// Objects that are marked, and whose references were not followed yet. When there are too many, bits remember them: the memory
// is bounded. No child of a fork has it: addresses in it are no roots.
class grey_objects {
 public:
  explicit grey_objects(std::deque<granule_bits>& rest);
  ~grey_objects();
  grey_objects(const grey_objects&) = delete;
  grey_objects& operator=(const grey_objects&) = delete;

  void push(std::size_t database, address object);
  // 0: there is none.
  [[nodiscard]] address pop();
  // The last ones, which come next.
  [[nodiscard]] std::span<const address> last(std::size_t most) const {
    const std::size_t some = std::min(used_, most);
    return {objects_ + used_ - some, some};
  }
  [[nodiscard]] bool empty() const { return used_ == 0 && !has_rest_; }

 private:
  void take_from_rest();

  std::deque<granule_bits>& rest_;
  address* objects_;
  std::size_t used_ = 0;
  bool has_rest_ = false;
};

// One thread at a time.
class marker {
 public:
  enum class if_nothing { refuse, ignore };

  // Of all databases that the store has now. `how`: what becomes of an exact reference that leads to no object: refuse throws
  // errc::damaged.
  marker(const database_set& store, if_nothing how);

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
  // Returns whether there are more.
  bool follow(std::uint64_t most);
  // Some of the objects that follow() will look at next. Who reads a byte of each before spares it to wait for a disk.
  static constexpr std::size_t most_next = 32;
  [[nodiscard]] std::span<const address> next() const { return grey_.last(most_next); }

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

  // Whether a reference was met to [begin, end) of a database, where no object is.
  [[nodiscard]] bool has_met(std::size_t database, address begin, address end) const;

  // The granules of a block where objects start that are marked. What was not there when marking began counts as marked.
  [[nodiscard]] start_bits marked_in(const database_state& in, std::uint64_t block) const;
  [[nodiscard]] std::uint64_t marked() const { return marked_; }

 private:
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
  struct marked_database {
    explicit marked_database(const database_state& database, std::uint64_t blocks)
        : of(&database),
          marks(database.home, blocks),
          has_transient_references(database.home, blocks),
          ends(database.home, blocks),
          cells(database.home, blocks),
          missed_low(database.home, blocks),
          missed_high(database.home, blocks),
          revived(database.home, blocks),
          followed(database.home, blocks) {}
    const database_state* of;
    granule_bits marks, has_transient_references, ends, cells;  // ends: of mark_end()
    // Where references lead to no object: the first and the other words of granules.
    granule_bits missed_low, missed_high;
    granule_bits revived;
    followed_pages followed;
    [[nodiscard]] granule_bits& missed_in(address word) { return (word & 8) == 0 ? missed_low : missed_high; }
    [[nodiscard]] const granule_bits& missed_in(address word) const {
      return (word & 8) == 0 ? missed_low : missed_high;
    }
  };
  // npos: none.
  static constexpr std::size_t npos = ~std::size_t{0};
  [[nodiscard]] std::size_t number_of(address at) const;
  // Returns whether an object is there.
  bool mark_persistent(stored_address to);
  // An object that a word of unknown layout may mean the end of. If references are judged, it is followed last: it may be
  // garbage that was not swept yet, and refer to anything.
  void mark_end(stored_address end);
  void follow_ends();
  void mark(std::size_t database, address object);
  // A reference that was met. Where some lead is looked up together, while the processor fetches what is known of that: one after
  // the other, marking took a quarter longer.
  struct met_reference {
    address from;
    reference_field what;
  };
  void meet(address from, const reference_field& what);
  void mark_met();
  // These return how many bytes were looked at.
  std::uint64_t follow_object(address object);
  struct rest_of_object {
    address object = 0;  // 0: none
    std::uint64_t begin = 0;
  };
  std::uint64_t follow_rest(const rest_of_object& of);
  // Of [begin, begin + most) of the object. What comes behind is in rest_of_large_ then.
  std::uint64_t mark_targets_of(const database_state& in, address object, std::uint64_t begin, std::uint64_t most);
  [[noreturn]] void refuse_damaged(address object) const;
  [[noreturn]] void refuse(address from, std::uint64_t offset, stored_address to) const;

  const database_set& store_;
  const if_nothing how_;
  std::deque<marked_database> databases_;
  std::deque<granule_bits> rest_;
  grey_objects grey_;
  std::span<const transient_reference> transient_references_;
  std::uint64_t marked_ = 0;
  bool has_ends_ = false, is_among_garbage_ = false, is_reviving_ = false;
  static constexpr std::uint64_t bytes_of_an_object = 128, most_at_once = 4096;
  rest_of_object rest_of_large_;
  os::cleared_vector<met_reference> met_;
  mutable std::size_t last_ = 0;  // database that an address was in
};

}  // namespace tenure::heap
