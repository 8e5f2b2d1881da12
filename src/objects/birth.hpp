// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where new objects get their memory: in blocks of the database's own addresses, so that they need not move to become
// persistent.
//
// The open write transaction has its own area, so that an abort can take back what it made. A second area is for
// objects that other threads make meanwhile, and for objects that are made outside of transactions. Within an area
// addresses only grow. Blocks come from runs that were given back, then from blocks that earlier processes left unused,
// then from space that was never used. Mostly empty blocks are filled again, but only by the transaction's area,
// because their pages are tracked.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include <tenure/rvm.hpp>
#include <tenure/store/options.hpp>

#include "objects/block_map.hpp"
#include "objects/free_runs.hpp"

namespace tenure::heap {

// The thread that makes an object: the writer has the open write transaction.
enum class maker { writer, other };

class birth {
 public:
  // Makes sure that the segment has space up to this offset from home, in bytes. Throws if it cannot.
  using grower = std::function<void(std::uint64_t)>;

  birth(block_map& map, rvm::region& region, const store_tuning& tune, grower grow);
  ~birth();
  birth(const birth&) = delete;
  birth& operator=(const birth&) = delete;

  // Allocates an object: zeroed memory behind a header. May be called by any thread.
  [[nodiscard]] address make(std::uint32_t type, std::uint64_t size, std::uint64_t alignment, maker who);
  // Takes back a transient object that no thread uses any more. May be called by any thread.
  void discard(address object);
  // Takes back the object at the address if it is transient. Returns whether it was.
  bool discard_transient(address at);

  // Called by the write transaction.
  void begin();
  void abort();
  // All promoted objects are in the stored bookkeeping now, and the transient objects in `retired` are gone. `freed`:
  // blocks from which a persistent object was removed.
  void committed(const std::unordered_set<address>& retired, const std::vector<std::uint64_t>& freed);

  // Notes that the block has objects which the current commit has promoted. Called in with_lock().
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
  // Runs f while no thread makes or takes back objects.
  template <class F>
  void with_lock(F&& f) {
    const std::scoped_lock lock(mutex_);
    f();
  }
  // Calls f for all transient objects.
  void for_each_transient(const std::function<void(address)>& f) const;
  // Finds blocks that have two owners, or lack the owner that they should have. One line for each mistake. Called in
  // with_lock().
  [[nodiscard]] std::vector<std::string> find_wrong_owners() const;
  // Throws if an invariant does not hold. Called in with_lock(), and not during a commit.
  void check() const;

 private:
  // Consecutive blocks. 0 blocks: no run.
  struct run {
    std::uint64_t first = 0, blocks = 0;
    bool zeroed = false;  // never used
  };
  struct area {
    address next = 0, limit = 0;                     // free memory in the current block, or in a hole of it
    run blocks;                                      // the current block and those behind it
    transient_block* within = nullptr;               // the current block's
    run spare;                                       // memory is there; used next
    std::uint64_t wanted = 4;                        // number of blocks to take next time
    std::vector<std::pair<address, address>> holes;  // its other holes, if the current block is filled again
  };

  // Called with the lock held. They return 0 if there is no room.
  address try_allocate_small(area& in, std::uint64_t size, std::uint64_t alignment, bool inside);
  address allocate_large(const run& in, std::uint64_t size, std::uint64_t alignment, bool inside);
  bool next_hole(area& in);
  bool next_block(area& in, bool inside);
  bool take_sparse_block(area& in);
  void close_block(area& in, bool inside);
  // Take blocks that have no owner. The caller owns them then.
  run take_blocks(std::uint64_t least, std::uint64_t most);
  run take_zones(std::uint64_t blocks);
  run take_never_used(std::uint64_t least, std::uint64_t most);
  // Called without the lock: gets memory for the blocks.
  void open(const run& which);
  void give_back(std::uint64_t first, std::uint64_t blocks);
  void give_back(run& which);
  // Scans some more of the blocks that earlier processes have left.
  void scan_old_blocks();
  transient_block& make_transient_block(std::uint64_t block, std::uint64_t span, block_kind kind);
  void touch(transient_block& y);
  void forget(address object);
  void release_if_empty(transient_block& y);
  void drop(transient_block& y);
  void check_transient_blocks() const;
  void check_area(const area& in) const;

  block_map& map_;
  rvm::region& region_;
  const store_tuning tune_;
  const std::uint64_t worth_filling_;  // a block with at most this many granules in use is filled again
  grower grow_;
  mutable std::mutex mutex_;
  area transaction_area_, other_area_, area_at_begin_;
  bool in_transaction_ = false;
  std::vector<transient_block*> touched_, promoted_;
  std::unordered_set<transient_block*> all_;
  // Blocks that had transient objects of other threads beside persistent ones, and have only persistent ones now: since
  // the last begin(), and before it. They are dropped when the tracker has compared their pages
  // [heap.transient.shared].
  std::vector<transient_block*> emptied_, compared_;
  free_runs free_;
  std::vector<run> in_hand_;                // threads are getting memory for them, without the lock
  std::set<std::uint64_t> sparse_;          // small blocks that may be worth filling again
  std::uint64_t unused_from_;               // no commit has used the blocks from here on
  std::uint64_t scan_from_ = 0, scan_end_;  // old blocks that were not scanned yet
  // Blocks from here on are zero, because the segment did not reach them when it was opened. In blocks before, a crash
  // may have left bytes of a bulk write [heap.bulk.leftovers].
  std::uint64_t zero_from_;
  counts made_;
};

}  // namespace tenure::heap
