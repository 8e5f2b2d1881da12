// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where new objects are born: in blocks of the database's own address range, so that they need not move to become persistent.
//
// The open write transaction has an area of its own, so that an abort can take back what it made. Objects that other threads
// make meanwhile, or that are made outside of transactions, come from another one. Inside an area addresses only grow.
// Blocks come from runs that were given back, then from blocks that earlier processes left unused, then from fresh space.
// Blocks that are mostly empty are filled again, by the transaction's area only: their pages are tracked.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include <tenure/rvm.hpp>
#include <tenure/store.hpp>

#include "objects/block_map.hpp"
#include "objects/free_runs.hpp"

namespace tenure::heap {

// Who makes an object: the thread that has the open write transaction, or another one.
enum class maker { writer, other };

class birth {
 public:
  // Makes sure that the segment has space up to here, in bytes from home; throws if it cannot.
  using grower = std::function<void(std::uint64_t)>;

  birth(block_map& map, rvm::region& region, const store_tuning& tune, grower grow);
  ~birth();
  birth(const birth&) = delete;
  birth& operator=(const birth&) = delete;

  // Zeroed memory behind a header. Any thread.
  [[nodiscard]] address make(std::uint32_t type, std::uint64_t size, std::uint64_t alignment, maker who);
  // Takes back a transient object. Any thread; nobody uses it any more.
  void discard(address object);
  // The same for whatever lies at the address. Returns whether it was a transient object.
  bool discard_transient(address at);

  // For the write transaction.
  void begin();
  void abort();
  // All promoted objects have moved to the stored bookkeeping; `retired` transient ones are gone. `freed`: blocks from which a
  // persistent object was taken.
  void committed(const std::unordered_set<address>& retired, const std::vector<std::uint64_t>& freed);

  // Blocks that hold objects that the commit under way has promoted. In exclusively().
  void note_promoted(transient_block& in) {
    if (in.has_promoted) return;
    in.has_promoted = true;
    promoted_.push_back(&in);
  }
  [[nodiscard]] const std::vector<transient_block*>& promoted() const { return promoted_; }
  void forget_promoted();

  struct counts {
    std::uint64_t objects = 0, bytes = 0;
  };
  [[nodiscard]] counts made() const;
  // Runs f while nobody makes or unmakes objects.
  template <class F>
  void with_lock(F&& f) {
    const std::scoped_lock lock(mutex_);
    f();
  }
  // All transient objects.
  void for_each_transient(const std::function<void(address)>& f) const;
  // Blocks that have two owners, or none of those that they should have: what is wrong, a line each. In exclusively().
  [[nodiscard]] std::vector<std::string> check() const;

 private:
  // Consecutive blocks. 0 of them: none.
  struct run {
    std::uint64_t first = 0, blocks = 0;
    bool zeroed = false;  // never used
  };
  struct area {
    address next = 0, limit = 0;                     // free memory in the current block, or hole
    run blocks;                                      // the current block and those behind it
    transient_block* within = nullptr;               // the current block's
    run spare;                                       // opened, to be used next
    std::uint64_t wanted = 4;                        // blocks to take next time
    std::vector<std::pair<address, address>> holes;  // more of them, if the current block is one that is filled again
  };

  // With the lock held; 0: there is no room.
  address try_allocate_small(area& in, std::uint64_t size, std::uint64_t alignment, bool inside);
  address allocate_large(const run& in, std::uint64_t size, std::uint64_t alignment, bool inside);
  bool next_hole(area& in);
  bool next_block(area& in, bool inside);
  bool take_sparse_block(area& in);
  void close_block(area& in, bool inside);
  // Blocks that nobody has; they are the caller's.
  run take_blocks(std::uint64_t least, std::uint64_t most);
  run take_zones(std::uint64_t blocks);
  run take_never_used(std::uint64_t least, std::uint64_t most);
  // Without the lock: memory for the blocks.
  void open(const run& which);
  void give_back(std::uint64_t first, std::uint64_t blocks);
  void give_back(run& which);
  // Looks at some more of the blocks that earlier processes have left.
  void scan_old_blocks();
  transient_block& make_transient_block(std::uint64_t block, std::uint64_t span, bool is_large);
  void touch(transient_block& y);
  void forget(address object);
  void release_if_empty(transient_block& y);
  void drop(transient_block& y);

  block_map& map_;
  rvm::region& region_;
  const store_tuning tune_;
  const std::uint64_t worth_filling_;  // granules in use, at most
  grower grow_;
  mutable std::mutex mutex_;
  area transaction_area_, other_area_, area_at_begin_;
  bool in_transaction_ = false;
  std::vector<transient_block*> touched_, promoted_;
  std::unordered_set<transient_block*> all_;
  // Blocks without transient objects, but with persistent ones beside which other threads have had some: since the last
  // begin(), and before it. They are dropped when the tracker has compared their pages [heap.transient.shared].
  std::vector<transient_block*> emptied_, compared_;
  free_runs free_;
  std::set<std::uint64_t> sparse_;          // small blocks that may be worth filling again
  std::uint64_t unused_from_;               // no commit has used the blocks from here on
  std::uint64_t scan_from_ = 0, scan_end_;  // old blocks that were not looked at
  // Blocks from here on are zero: the segment did not reach them when it was opened. Before that, a crash may have left what a
  // bulk write had brought there [heap.bulk.leftovers].
  std::uint64_t zero_from_;
  counts made_;
};

}  // namespace tenure::heap
