// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where new objects get their memory: in blocks of the database's own addresses, so that they need not move to become
// persistent.
//
// The open write transaction has its own area, so that an abort can take back what it made. A second area is for
// objects that other threads make meanwhile, and for objects that are made outside of transactions. Within an area
// addresses only grow. Blocks come from runs that were given back, then from blocks that earlier processes left unused,
// then from space that was never used. Mostly empty blocks and typed pages are filled again, but only by the
// transaction's area, because their pages are tracked.
//
// Objects of one type and size get typed pages of their own when there are enough of them. Eight such pages lie in a
// block, in the order in which they were needed: what is made together lies together.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <tenure/rvm.hpp>
#include <tenure/store/options.hpp>

#include "objects/address_lists.hpp"
#include "objects/block_map.hpp"
#include "objects/free_runs.hpp"
#include "objects/granule_bits.hpp"
#include "segments/interval_set.hpp"

namespace tenure::heap {

// The thread that makes an object: the writer has the open write transaction.
enum class maker { writer, other };

struct new_object {
  std::uint32_t type;  // index
  std::uint64_t size, alignment;
  bool may_be_typed = false;  // the size is exactly known
  bool is_pointer_free = false;
};

class birth {
 public:
  // Makes sure that the segment has space up to this offset from home, in bytes. Throws if it cannot.
  using grower = std::function<void(std::uint64_t)>;

  birth(block_map& map, rvm::region& region, const store_tuning& tune, grower grow);
  ~birth();
  birth(const birth&) = delete;
  birth& operator=(const birth&) = delete;

  // Allocates an object: zeroed memory behind a header or in a typed page. May be called by any thread.
  [[nodiscard]] address make(const new_object& what, maker who);
  // Takes back a transient object that no thread uses any more. May be called by any thread.
  void discard(address object);
  // Takes back the object at the address if it is transient. Returns whether it was.
  bool discard_transient(address at);

  // Called by the write transaction.
  void begin();
  void abort() noexcept;
  // All promoted objects are in the stored bookkeeping now, and the transient objects in `retired` are gone. `freed`:
  // blocks from which a persistent object was removed.
  void committed(const address_set& retired, const std::vector<std::uint64_t>& freed) noexcept;
  // Before the commit of which committed() tells, with so many retired objects, and these blocks, in order: there is memory for
  // what must be remembered, and until committed() or commit_failed() nobody gets one of the blocks. Called in with_lock().
  void prepare_commit(std::size_t retired, const std::vector<std::uint64_t>& freed);
  // The stored bookkeeping is what it was before. Called in with_lock().
  void commit_failed() noexcept;

  // Inner transactions (birth_levels.cpp). What an aborted one has made is gone; what a committed one has made is the outer one's.
  void begin_level();
  void commit_level() noexcept;
  void abort_level() noexcept;
  [[nodiscard]] std::size_t levels() const noexcept { return levels_.size(); }
  // Calls f(begin, end) for all memory of what the open transaction has made. Called in with_lock().
  template <class F>
  void for_each_made(F&& f) const;
  // Calls f(facts) for each object that it has made. Called in with_lock().
  template <class F>
  void for_each_made_object(F&& f) const {
    for (const transient_block* const y : touched_)
      y->made_now().for_each(
          [&](std::uint64_t g) { f(map_.transient_facts(*y, object_of_bit(map_.start_of(y->first), y->pages, g))); });
  }
  // Whether there are transient objects that the open transaction has not made. Called in with_lock().
  [[nodiscard]] bool has_older_transients() const;
  // Of a transient object: whether the open transaction has made it. Called in with_lock().
  [[nodiscard]] bool was_made_now(const transient_block& in, address object) const {
    const std::uint64_t bit = (object - map_.start_of(in.first)) / granule;
    return in.touched != 0 && !in.starts_at_begin.test(bit);
  }

  // Free blocks from block `from` on, which nobody uses until trimmed() gives them back: their disk space is to be given
  // back. In ascending order; few runs, because a transaction notes each. None: there are no more.
  [[nodiscard]] std::vector<free_runs::run> take_for_trim(std::uint64_t from);
  // `is_done`: their space may be gone. It is allocated before they are used again [heap.blocks.space].
  void trimmed(std::span<const free_runs::run> runs, bool is_done) noexcept;

  // Nothing is made where these objects were, of one block or one large object of some blocks, until release(): they may yet be
  // used. Called in with_lock().
  void hold(std::uint64_t block, std::uint64_t blocks, const start_bits& objects);
  // All but these.
  void release(std::uint64_t block, std::uint64_t blocks, const start_bits& but);
  // Nothing is made in this block until reopen(), unless it becomes empty before: its objects are to be moved. Returns false if it
  // has, or had just now, transient objects. Called in with_lock().
  [[nodiscard]] bool close(std::uint64_t block);
  void reopen(std::uint64_t block);
  [[nodiscard]] start_bits held_in(std::uint64_t block) const {
    const auto found = held_.find(block);
    return found != held_.end() ? found->second : start_bits();
  }

  // Notes that the block has objects which the current commit has promoted. Called in with_lock().
  void note_promoted(transient_block& in) {
    if (in.has_promoted) return;
    promoted_.push_back(&in);
    in.has_promoted = true;
  }
  [[nodiscard]] const std::vector<transient_block*>& promoted() const { return promoted_; }
  // Calls f(address) for each transient object that may lie where a persistent one was, and that the commit has not promoted so
  // far, until f returns true. Returns whether it did. Called in with_lock().
  template <class F>
  [[nodiscard]] bool any_left_in_reused_memory(F&& f) const {
    return std::ranges::any_of(reused_, [&](const transient_block* y) {
      bool found = false;
      for (std::size_t n = 0; n < start_bits::words && !found; ++n) {
        std::uint64_t left = y->starts.word(n) & ~y->promoted.word(n) & ~y->moved.word(n);
        for (; left != 0 && !found; left &= left - 1)
          found = f(object_of_bit(map_.start_of(y->first), y->pages,
                                  n * 64 + static_cast<std::uint64_t>(std::countr_zero(left))));
      }
      return found;
    });
  }
  // Whether an object of this process has lain where the zone has its bookkeeping. If it never became persistent, memory
  // there differs from the file. Called in with_lock().
  [[nodiscard]] bool has_covered(std::uint64_t zone) const { return covered_.contains(zone); }

  struct counts {
    std::uint64_t objects = 0, bytes = 0;
  };
  [[nodiscard]] counts made() const;
  // Runs f while no thread makes or takes back objects.
  template <class F>
  void with_lock(F&& f) {
    const std::scoped_lock lock(whole_);
    f();
  }
  // The lanes in which threads make objects. Called in with_lock().
  [[nodiscard]] unsigned lanes() const noexcept { return static_cast<unsigned>(std::popcount(used_lanes_.load())); }
  // From now on, what is made is noted in `where`; nullptr: no more. Called in with_lock().
  void note_new(granule_bits* where) { new_ = where; }
  // Takes back transient objects of the block, of which no thread uses any. `kept` says which must stay, while nobody makes
  // any. Returns the number of objects and their bytes.
  counts discard_garbage(std::uint64_t block, const std::function<start_bits(const transient_block&)>& kept);
  // The first blocks of what has transient objects now.
  [[nodiscard]] std::vector<std::uint64_t> transient_blocks() const;
  // Calls f for all transient objects.
  void for_each_transient(const std::function<void(address)>& f) const;
  // Calls f for all blocks with transient objects. Called in with_lock(); neither allocates nor locks.
  template <class F>
  void for_each_transient_block(F&& f) const {
    for (const transient_block* y : all_) f(*y);
  }
  // Finds blocks that have two owners, or lack the owner that they should have. One line for each mistake. Called in
  // with_lock().
  [[nodiscard]] std::vector<std::string> find_wrong_owners() const;
  // Throws if an invariant does not hold. Called in with_lock(), and not during a commit.
  void check() const;

 private:
  // Consecutive blocks. 0 blocks: no run.
  struct run {
    std::uint64_t first = 0, blocks = 0;
    bool zeroed = false;       // never used
    bool lacks_space = false;  // perhaps
  };
  static constexpr std::uint8_t most_lanes = 8;
  struct area {
    // The block for objects with headers.
    unseen_address next, limit;                                    // free memory in it, or in a hole of it
    std::vector<std::pair<unseen_address, unseen_address>> holes;  // the other holes, if it is filled again
    transient_block* within = nullptr;
    bool is_zeroed = false;
    // The block in which the next typed page will be.
    transient_block* typed = nullptr;
    std::size_t next_page = 0;
    bool typed_is_zeroed = false;
    std::uint8_t lane = 0;  // it belongs to
    // Blocks to be used next. Their memory is there.
    run ahead, spare;
    std::uint64_t wanted = 4;  // number of blocks to take next time
  };
  static constexpr std::size_t cache_line = 64;  // bytes
  // Where the next objects of one type and size are made: the free slots of a typed page. Each in a cache line of its own:
  // threads change those of their lanes at the same time.
  struct alignas(cache_line) cursor {
    unseen_address next, limit;
    transient_block* within = nullptr;
    bool is_zeroed = false;
    bool is_refilled = false;  // some slots are taken
  };
  // Objects of one type and size.
  struct object_class {
    page_word word;
    std::uint64_t with_headers = 0;  // bytes of those that were made before there was a page
    cursor transaction;
    std::array<cursor, most_lanes + 1> others;  // by lane; 0: without one
    // Set if the open transaction uses the class: by its last level that does, from 1 on, and what it was before.
    std::uint32_t used = 0;
    cursor at_begin;
    std::uint64_t with_headers_at_begin = 0;
    std::set<unseen_address> sparse_pages;  // may be worth filling again
  };

  // Threads that meet at the lock of births make objects in lanes from then on (birth_lanes.cpp).
  struct alignas(cache_line) lane {
    std::mutex mutex;
    std::uint8_t number = 0;                // from 1 on
    area in;                                // typed pages only
    std::vector<object_class*> last_class;  // of each type: that of which the lane has made objects last
    counts made;
  };
  // Locks the births and all lanes. Lockable.
  class whole_lock {
   public:
    explicit whole_lock(const birth& of) : of_(of) {}
    void lock();
    void unlock();

   private:
    const birth& of_;
  };
  // The lane of the calling thread; nullptr: it has none. `when`: whether it gets one.
  enum class if_none { leave, give };
  [[nodiscard]] lane* lane_of_this_thread(if_none when);
  // With the lane's lock only. Returns 0 if the lane has no slot for it.
  [[nodiscard]] address make_in_lane(lane& in, const new_object& what);
  // The lock of the lane in whose block the address lies, if there is one. With the lock of births.
  [[nodiscard]] std::unique_lock<std::mutex> lock_lane_of(address at) const;

  // Called with the lock held. They return 0 if there is no room.
  address try_allocate_small(area& in, std::uint64_t size, std::uint64_t alignment, bool inside);
  address allocate_large(const run& in, std::uint64_t size, std::uint64_t alignment, bool inside);
  bool next_hole(area& in);
  bool next_block(area& in, bool inside);
  bool take_sparse_block(area& in);
  // Removes blocks until one is still of this kind, and has nothing transient.
  std::optional<std::uint64_t> take_last(std::set<std::uint64_t>& sparse, block_kind kind) const;
  void close_block(area& in, bool inside);
  bool take_ahead(area& in, run& one);
  transient_block& make_block_ahead(area& in, const run& block, block_kind kind);
  // Whether the next block of take_ahead() is in a headed zone, and cannot have typed pages.
  [[nodiscard]] bool is_headed_ahead(const area& in) const;
  // typed_birth.cpp
  object_class* find_class(const new_object& what, bool inside);
  object_class& class_of(page_word word);
  address try_allocate_typed(area& in, object_class& of, cursor& at, bool inside);
  address take_slot(const object_class& of, cursor& at, bool inside);
  void skip_taken(const object_class& of, cursor& at) const;
  void note_use(object_class& of);
  bool next_page(area& in, object_class& of, cursor& at, bool inside);
  bool take_sparse_page(object_class& of);
  bool take_page(area& in, object_class& of, cursor& at, bool inside);
  bool take_sparse_typed(area& in);
  void close_typed(area& in, bool inside);
  void enter(cursor& at, const cursor& where) noexcept;
  void leave(cursor& at);
  void restore_cursors(std::size_t first_class) noexcept;
  void return_to(object_class& of, const cursor& to, std::uint64_t with_headers) noexcept;
  void keep_cursors();
  void forget_in_levels(transient_block& in, const start_bits& gone);
  void restore_area(area before) noexcept;
  [[nodiscard]] std::uint32_t level() const noexcept { return static_cast<std::uint32_t>(levels_.size() + 1); }
  [[nodiscard]] bool is_worth_filling(std::uint64_t block, const record_view& r, std::size_t page) const;
  [[nodiscard]] bool has_held_in_page(std::uint64_t block, std::size_t page) const {
    const auto found = held_.find(block);
    return found != held_.end() && !found->second.empty_in_page(page);
  }
  void check_classes() const;
  // Take blocks that have no owner. The caller owns them then.
  run take_blocks(std::uint64_t least, std::uint64_t most);
  run take_zones(std::uint64_t blocks);
  run take_never_used(std::uint64_t least, std::uint64_t most);
  // Called without the lock: gets memory for the blocks.
  void open(const run& which);
  void give_back(std::uint64_t first, std::uint64_t blocks);
  void give_back(run& which);
  [[nodiscard]] std::uint64_t end_of_large(std::uint64_t first, std::uint64_t blocks) const;
  // Scans some more of the blocks that earlier processes have left.
  void scan_old_blocks();
  enum class memory { never_used, reused };
  transient_block& make_transient_block(std::uint64_t block, std::uint64_t span, block_kind kind, memory where);
  void note_reused(transient_block& y);
  // Before an object is made there, by the transaction or by somebody else; and when the transaction's area comes there.
  void touch(transient_block& y);
  void share(transient_block& y);
  void forget(address object);
  // Returns whether the block is gone.
  bool release_if_empty(transient_block& y);
  void offer_freed() noexcept;
  // The same. Returns false if memory is too short: it is to be tried again.
  [[nodiscard]] bool try_release(transient_block& y) noexcept;
  void drop(transient_block& y);
  // Nothing is transient in the block any more, or its persistent objects have become fewer: it may be used again.
  void offer(std::uint64_t block);
  [[nodiscard]] bool is_leaving(std::uint64_t block) const { return std::ranges::binary_search(leaving_, block); }
  void check_transient_blocks() const;
  void check_area(const area& in) const;

  block_map& map_;
  rvm::region& region_;
  const store_tuning tune_;
  const std::uint64_t worth_filling_;  // a block with at most this many granules in use is filled again
  grower grow_;
  mutable std::mutex mutex_;
  mutable whole_lock whole_{*this};
  mutable std::array<lane, most_lanes> lanes_;
  std::atomic<std::uint32_t> used_lanes_{0};  // a bit for each; changed with the lock of births
  area transaction_area_, other_area_, area_at_begin_;
  bool in_transaction_ = false;
  std::vector<transient_block*> touched_, promoted_;
  // When the last transaction ended, memory was too short to give these back. They are the next one's. Empty while one is open.
  std::vector<transient_block*> unreleased_;
  std::vector<std::uint64_t>
      unoffered_;  // the same for blocks that have lost objects; the last ones that tried are tried again
  // Blocks from which a commit that is neither captured nor undone has removed objects, in order. Their bookkeeping says so already.
  std::vector<std::uint64_t> leaving_;
  // Of inner transactions: what there was when each began. What has changed since is listed here if an outer level has changed it
  // before; otherwise it still was what it was at begin().
  struct inner_level {
    area at_begin;
    std::size_t touched, used_classes;  // of the lists
    struct block_state {
      start_bits starts;
      page_words pages;
      std::uint32_t touched;
    };
    std::map<transient_block*, block_state> blocks;
    struct class_state {
      cursor at;
      std::uint64_t with_headers;
      std::uint32_t used;
    };
    std::map<object_class*, class_state> classes;
  };
  std::vector<inner_level> levels_;
  std::unordered_set<transient_block*> all_;
  std::unordered_set<transient_block*> reused_;  // those of them that are
  // Blocks that had transient objects of other threads beside persistent ones, and have only persistent ones now: since
  // the last begin(), and before it. They are dropped when the tracker has compared their pages
  // [heap.transient.shared].
  std::vector<transient_block*> emptied_, compared_;
  free_runs free_;
  rvm::interval_set spaceless_;                         // blocks whose disk space may be gone
  rvm::interval_set trimmed_;                           // of these, those from which this process has taken it
  std::set<std::uint64_t> covered_;                     // zones into which large objects have continued
  std::unordered_map<std::uint64_t, start_bits> held_;  // by block
  rvm::interval_set held_large_;                        // blocks of such objects
  std::unordered_set<std::uint64_t> closed_;            // blocks
  std::vector<run> in_hand_;                            // threads are getting memory for them, without the lock
  std::set<std::uint64_t> sparse_;                      // small blocks that may be worth filling again
  std::set<std::uint64_t> sparse_typed_;                // typed blocks that may have pages without objects
  std::unordered_map<std::uint64_t, std::unique_ptr<object_class>> classes_;  // by type and size
  std::vector<object_class*> last_class_;                                     // of each type
  std::vector<object_class*> used_classes_;                                   // by the open transaction
  std::uint64_t unused_from_;               // no commit has used the blocks from here on
  std::uint64_t scan_from_ = 0, scan_end_;  // old blocks that were not scanned yet
  // Blocks from here on are zero, because the segment did not reach them when it was opened. In blocks before, a crash
  // may have left bytes of a bulk write [heap.bulk.leftovers].
  std::uint64_t zero_from_;
  counts made_;
  granule_bits* new_ = nullptr;
};

// Objects side by side at once, with the padding between them.
template <class F>
void birth::for_each_made(F&& f) const {
  address from = 0, to = 0;
  const auto add = [&](address begin, address end) {
    if (from != 0 && begin >= to && begin < to + granule) {
      to = end;
      return;
    }
    if (from != 0) f(from, to);
    from = begin;
    to = end;
  };
  for (const transient_block* const y : touched_) {
    const start_bits made = y->made_now();
    const address block = map_.start_of(y->first);
    const auto add_object = [&](std::uint64_t g) {
      const object_facts object = map_.transient_facts(*y, object_of_bit(block, y->pages, g));
      add(object.begin, object.end);
    };
    if (y->kind != block_kind::typed) {
      made.for_each(add_object);
      continue;
    }
    for (std::size_t n = 0; n < pages_in_block; ++n) {
      const std::uint64_t objects = made.count_in_page(n);
      const address page = block + n * typed_page_size;
      if (objects != 0 && objects == y->pages[n].slots())
        add(page, page + objects * y->pages[n].stride());
      else if (objects != 0)
        made.for_each_in_page(n, add_object);
    }
  }
  if (from != 0) f(from, to);
}

}  // namespace tenure::heap
