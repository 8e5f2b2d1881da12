// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/birth.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

#include <tenure/error.hpp>

namespace tenure::heap {

namespace {

constexpr address up(address at, std::uint64_t to) { return (at + to - 1) & ~(to - 1); }

}  // namespace

// --- Making ---------------------------------------------------------------------------------------------------------------

birth::birth(block_map& map, rvm::region& region, const store_tuning& tune, grower grow)
    : map_(map),
      region_(region),
      tune_(tune),
      worth_filling_(granules_in_block * std::min<std::uint32_t>(tune.refill, 100) / 100),
      grow_(std::move(grow)),
      free_(map.blocks()),
      unused_from_(map.header().blocks_end),
      scan_end_(unused_from_),
      zero_from_((region.size() + block_size - 1) / block_size) {
  // An object that continues into its last zone has used that zone's bookkeeping, so the rest of the zone has none.
  if (unused_from_ % blocks_in_zone != 0 && map.kind_of_zone(unused_from_ / blocks_in_zone) == zone_kind::continued)
    unused_from_ = (unused_from_ / blocks_in_zone + 1) * blocks_in_zone;
  // What was never persistent is not counted as used, but may have been trimmed, too.
  if (map.header().trims != 0) spaceless_.add(0, std::max(unused_from_, zero_from_));
  // Nor are objects made in the first blocks of a headed zone.
  if (unused_from_ % blocks_in_zone < bookkeeping_blocks)
    unused_from_ = unused_from_ / blocks_in_zone * blocks_in_zone + bookkeeping_blocks;
  for (std::uint8_t n = 0; n < most_lanes; ++n) lanes_[n].number = lanes_[n].in.lane = n + 1;
}

birth::~birth() {
  for (transient_block* y : all_) {
    map_.set_transient_block(y->first, y->span, nullptr);
    delete y;
  }
}

birth::counts birth::made() const {
  const std::scoped_lock lock(whole_);
  counts all = made_;
  for (const lane& each : lanes_) {
    all.objects += each.made.objects;
    all.bytes += each.made.bytes;
  }
  return all;
}

// The segment grows, and pages are opened, without the lock: a commit takes the lock while it keeps other threads from
// growing the segment.
address birth::make(const new_object& what, maker who) {
  const std::uint64_t alignment = std::max(what.alignment, granule), size = std::max<std::uint64_t>(what.size, 1);
  // An object that is aligned to a block would begin in the block behind its header, where no search finds it.
  if (size > map_.capacity() / 2 || alignment > block_size / 2)
    throw error(errc::out_of_memory, "an object of " + std::to_string(size) + " bytes, aligned to " +
                                         std::to_string(alignment) + ", is too large for this database");
  lane* own = nullptr;
  if (who == maker::other && used_lanes_.load(std::memory_order_relaxed) != 0) {
    own = lane_of_this_thread(if_none::leave);
    if (own != nullptr)
      if (const address at = make_in_lane(*own, what); at != 0) return at;
  }
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    lock.lock();
    if (who == maker::other) own = lane_of_this_thread(if_none::give);
  }
  const bool mine = who == maker::writer && in_transaction_;
  const bool is_small = size + alignment <= largest_small;
  object_class* of = find_class(what, mine);
  if (of == nullptr) own = nullptr;
  std::unique_lock<std::mutex> beside;
  if (own != nullptr) {
    beside = std::unique_lock(own->mutex);
    if (what.type >= own->last_class.size()) own->last_class.resize(what.type + 1);
  }
  area* in = mine ? &transaction_area_ : own != nullptr ? &own->in : &other_area_;
  const auto try_allocate = [&] {
    if (of != nullptr) {
      cursor& at = mine ? of->transaction : of->others[in->lane];
      const address typed = try_allocate_typed(*in, *of, at, mine);
      if (typed != 0 || !is_headed_ahead(*in)) return typed;
      of = nullptr;
      if (own != nullptr) in = &other_area_;
    }
    return try_allocate_small(*in, size, alignment, mine);
  };
  const auto unlock = [&] {
    if (own != nullptr) beside.unlock();
    lock.unlock();
  };
  const auto lock_again = [&] {
    lock.lock();
    if (own != nullptr) beside.lock();
  };
  address at = is_small ? try_allocate() : 0;
  while (at == 0) {
    const std::uint64_t blocks = (up(header_bytes(size), alignment) + size + block_size - 1) / block_size;
    in_hand_.reserve(in_hand_.size() + 1);
    run got = is_small ? take_blocks(1, in->wanted) : take_blocks(blocks, blocks);
    got.lacks_space = spaceless_.intersects(got.first, got.first + got.blocks);
    in_hand_.push_back(got);
    unlock();
    try {
      open(got);
    } catch (...) {
      lock_again();
      std::erase_if(in_hand_, [&](const run& r) { return r.first == got.first; });
      give_back(got);
      throw;
    }
    lock_again();
    std::erase_if(in_hand_, [&](const run& r) { return r.first == got.first; });
    if (got.lacks_space) {
      spaceless_.remove(got.first, got.first + got.blocks);
      trimmed_.remove(got.first, got.first + got.blocks);
    }
    if (is_small) {
      if (in->spare.blocks != 0) give_back(in->spare);  // another thread was as fast
      in->spare = got;
      in->wanted = std::min(2 * in->wanted, std::max<std::uint64_t>(tune_.most_blocks, 1));
      at = try_allocate();
    } else {
      try {
        at = allocate_large(got, size, alignment, mine);
      } catch (const std::bad_alloc&) {
        transient_block* const y = map_.find_transient_block(got.first);
        if (y != nullptr)
          release_if_empty(*y);
        else
          give_back(got);
        throw;
      }
    }
  }
  assert(at % what.alignment == 0 && map_.contains(at) && map_.contains(at + size - 1));
  ++made_.objects;
  made_.bytes += size;
  if (new_ != nullptr) [[unlikely]]
    new_->set(at);
  if (of != nullptr) {
    if (own != nullptr) own->last_class[what.type] = of;
    return at;
  }
  if (size >= huge_size) std::memcpy(reinterpret_cast<void*>(at - 16), &size, sizeof size);
  *reinterpret_cast<object_header*>(at - sizeof(object_header)) = {
      what.type, size >= huge_size ? huge_size : static_cast<std::uint32_t>(size)};
  made_.bytes += header_bytes(size);
  return at;
}

address birth::try_allocate_small(area& in, std::uint64_t size, std::uint64_t alignment, bool inside) {
  address at = up(in.next + sizeof(object_header), alignment);
  while (at + size > in.limit) {
    if (!next_hole(in) && !next_block(in, inside)) return 0;
    at = up(in.next + sizeof(object_header), alignment);
  }
  // Space between objects is logged with them, so it is always zero.
  if (!in.is_zeroed) std::memset(reinterpret_cast<void*>(address{in.next}), 0, at + size - in.next);
  in.next = at + size;
  if (inside)
    touch(*in.within);
  else
    share(*in.within);
  assert(map_.block_of(at) == in.within->first && map_.block_of(at + size - 1) == in.within->first);
  const std::uint64_t bit = (at - map_.start_of(in.within->first)) / granule;
  in.within->starts.set(bit);
  in.within->moved.reset(bit);
  return at;
}

address birth::allocate_large(const run& in, std::uint64_t size, std::uint64_t alignment, bool inside) {
  const std::uint64_t before = up(header_bytes(size), alignment);
  assert(before + size <= in.blocks * block_size);
  for (std::uint64_t z = in.first / blocks_in_zone + 1; z * blocks_in_zone < in.first + in.blocks; ++z)
    covered_.insert(z);
  transient_block& y =
      make_transient_block(in.first, in.blocks, block_kind::large, in.zeroed ? memory::never_used : memory::reused);
  assert(y.starts.empty());
  if (inside)
    touch(y);
  else
    share(y);
  y.starts.set(before / granule);
  y.moved.reset(before / granule);
  const address object = map_.start_of(in.first) + before;
  if (!in.zeroed) std::memset(reinterpret_cast<void*>(object), 0, size);
  return object;
}

void birth::touch(transient_block& y) {
  if (y.is_quiet) map_.set_quiet(y, false);
  if (y.touched != 0 && levels_.empty()) return;
  const std::uint32_t now = level();
  if (y.touched == now) return;
  if (y.touched == 0) {
    touched_.push_back(&y);
    y.starts_at_begin = y.starts;
    y.pages_at_begin = y.pages;
  } else {
    levels_.back().blocks.try_emplace(&y, inner_level::block_state{y.starts, y.pages, y.touched});
  }
  y.touched = now;
}

void birth::share(transient_block& y) {
  if (y.is_shared) return;  // and not quiet: a thread with the lock of its lane only changes nothing here
  if (y.is_quiet) map_.set_quiet(y, false);
  y.is_shared = true;
}

bool birth::next_hole(area& in) {
  if (in.holes.empty()) return false;
  std::tie(in.next, in.limit) = in.holes.back();
  in.holes.pop_back();
  return true;
}

void birth::close_block(area& in, bool inside) {
  transient_block* const last = std::exchange(in.within, nullptr);
  in.next = in.limit = 0;
  if (last == nullptr) return;
  if (inside)
    touch(*last);  // an abort comes back to it
  else
    release_if_empty(*last);
}

bool birth::take_ahead(area& in, run& one) {
  if (in.ahead.blocks == 0) in.ahead = std::exchange(in.spare, {});
  if (in.ahead.blocks == 0) return false;
  one = {in.ahead.first++, 1, in.ahead.zeroed};
  --in.ahead.blocks;
  return true;
}

bool birth::next_block(area& in, bool inside) {
  close_block(in, inside);
  if (inside && in.ahead.blocks == 0 && take_sparse_block(in)) return true;
  run block;
  if (!take_ahead(in, block)) return false;
  in.within = &make_block_ahead(in, block, block_kind::small);
  if (inside) touch(*in.within);
  in.is_zeroed = block.zeroed;
  in.next = map_.start_of(block.first);
  in.limit = in.next + block_size;
  return true;
}

std::optional<std::uint64_t> birth::take_last(std::set<std::uint64_t>& sparse, block_kind kind) const {
  while (!sparse.empty()) {
    const std::uint64_t block = *sparse.rbegin();
    sparse.erase(block);
    // The zone may have been emptied since. Then a large object may lie where its bookkeeping was.
    if (!has_blocks(map_.kind_of_zone(block / blocks_in_zone))) continue;
    if (closed_.contains(block)) continue;
    if (map_.entry(block).kind == kind && map_.find_transient_block(block) == nullptr) return block;
  }
  return std::nullopt;
}

// Finds the gaps between the persistent objects of a mostly empty block.
bool birth::take_sparse_block(area& in) {
  scan_old_blocks();
  while (const std::optional<std::uint64_t> found = take_last(sparse_, block_kind::small)) {
    const std::uint64_t block = *found;
    if (map_.entry(block).used > worth_filling_) continue;
    in.holes.clear();
    std::vector<std::pair<unseen_address, unseen_address>> holes;
    address free_from = map_.start_of(block);
    const address end = map_.start_of(block) + block_size;
    start_bits taken = held_in(block);
    for (std::size_t n = 0; n < start_bits::words; ++n) taken.word(n) |= map_.starts(block).word(n);
    taken.for_each([&](std::uint64_t g) {
      const object_facts object = facts_of_headed(map_.start_of(block) + g * granule);
      if (object.begin >= free_from + tune_.least_hole) holes.emplace_back(free_from, object.begin);
      free_from = std::min(object.end, end);  // of what is held, somebody may have written to the header
    });
    if (end >= free_from + tune_.least_hole) holes.emplace_back(free_from, end);
    if (holes.empty()) continue;
    in.is_zeroed = false;
    in.within = &make_transient_block(block, 1, block_kind::small, memory::reused);
    touch(*in.within);
    std::ranges::reverse(holes);
    in.holes = std::move(holes);
    return next_hole(in);
  }
  return false;
}

birth::run birth::take_blocks(std::uint64_t least, std::uint64_t most) {
  if (least > blocks_in_zone - bookkeeping_blocks) return take_zones(least);
  scan_old_blocks();
  if (const free_runs::run found = free_.take(least, most); found.blocks != 0)
    return {found.first, found.blocks, false};
  return take_never_used(least, most);
}

// An object that is larger than a zone begins at a zone's first block, and continues over the bookkeeping of the
// following zones, which must be unused.
birth::run birth::take_zones(std::uint64_t blocks) {
  while (scan_from_ < scan_end_) scan_old_blocks();
  const std::uint64_t following = (blocks + bookkeeping_blocks - 1) / blocks_in_zone;
  std::uint64_t zone = 0;  // 0: none; the zone of the header is never wholly unused
  free_.find_whole_zone([&](std::uint64_t candidate) {
    std::uint64_t found = 0;
    if (candidate * blocks_in_zone + bookkeeping_blocks + blocks > map_.blocks()) return false;
    while (found < following && map_.kind_of_zone(candidate + found + 1) == zone_kind::unused &&
           free_.has_whole_zone(candidate + found + 1))
      ++found;
    if (found == following) zone = candidate;
    return zone != 0;
  });
  if (zone == 0) return take_never_used(blocks, blocks);
  for (std::uint64_t z = zone; z <= zone + following; ++z) free_.take_zone(z);
  return {zone * blocks_in_zone + bookkeeping_blocks, blocks, false};
}

birth::run birth::take_never_used(std::uint64_t least, std::uint64_t most) {
  std::uint64_t first = unused_from_, taken = least;
  if (const std::uint64_t left = blocks_in_zone - first % blocks_in_zone; least <= left) {
    taken = std::max(least, std::min({most, left, map_.blocks() - std::min(first, map_.blocks())}));
  } else if (first % blocks_in_zone > bookkeeping_blocks) {
    // The rest of the zone stays free for other objects. An object that is larger than any zone continues through the
    // following zones.
    first += left + bookkeeping_blocks;
  }
  const std::uint64_t end = first + taken;
  if (end > map_.blocks())
    throw error(errc::out_of_memory,
                "the database is full: its reservation of " + std::to_string(map_.capacity()) +
                    " bytes has no room for " + std::to_string(least * block_size) +
                    " more; make a database with a larger reservation" +
                    (held_.empty() ? "" : "; some of it is in quarantine, until the next collection"));
  if (first != unused_from_) give_back(unused_from_, blocks_in_zone - unused_from_ % blocks_in_zone);
  unused_from_ = end;
  // The next block begins behind the bookkeeping of its zone. If an object continues into a zone, the rest of that zone
  // has no bookkeeping.
  if ((end - 1) / blocks_in_zone != first / blocks_in_zone)
    unused_from_ = (end + blocks_in_zone - 1) / blocks_in_zone * blocks_in_zone;
  if (unused_from_ % blocks_in_zone == 0) unused_from_ += bookkeeping_blocks;
  assert(first % blocks_in_zone >= bookkeeping_blocks && taken >= least);
  return {first, taken, first >= zero_from_};
}

void birth::open(const run& which) {
  grow_((which.first + which.blocks) * block_size);
  if (which.lacks_space) region_.allocate(which.first * block_size, which.blocks * block_size);
  region_.open_untracked(reinterpret_cast<void*>(map_.start_of(which.first)), which.blocks * block_size);
}

void birth::give_back(run& which) {
  if (which.blocks != 0) give_back(which.first, which.blocks);
  which = {};
}

namespace {

// Calls f(first, blocks) for each part in one zone. Nothing else was in use in the zones into which a large object continued.
template <class F>
void for_each_zone(const block_map& map, std::uint64_t first, std::uint64_t blocks, F&& f) {
  const std::uint64_t end = first + blocks, zone = first / blocks_in_zone;
  if ((end - 1) / blocks_in_zone == zone) return f(first, blocks);
  for (std::uint64_t z = zone + 1; z * blocks_in_zone < end; ++z)
    f(z * blocks_in_zone + bookkeeping_blocks, map.end_of_zone(z) - z * blocks_in_zone - bookkeeping_blocks);
  f(first, (zone + 1) * blocks_in_zone - first);
}

}  // namespace

// All or nothing, if memory is too short.
void birth::give_back(std::uint64_t first, std::uint64_t blocks) {
  assert(blocks != 0 && first % blocks_in_zone >= bookkeeping_blocks);
  const auto for_each_run = [&](auto&& f) {
    for_each_zone(map_, first, blocks, [&](std::uint64_t from, std::uint64_t length) {
      if (length == 1 && held_.contains(from)) return;
      for (std::uint64_t b = from; b < from + length;) {
        const std::uint64_t next = held_large_.end_of_run(b, from + length);
        if (!held_large_.contains(b)) f(b, next - b);
        b = next;
      }
    });
  };
  std::size_t runs = 0;
  for_each_run([&](std::uint64_t, std::uint64_t) { ++runs; });
  free_.make_room(runs);
  for_each_run([&](std::uint64_t from, std::uint64_t length) { free_.add(from, length); });
}

// The bookkeeping of a zone into which an object continued would lie in the object.
std::uint64_t birth::end_of_large(std::uint64_t first, std::uint64_t blocks) const {
  const std::uint64_t end = first + blocks, last = (end - 1) / blocks_in_zone;
  return last == first / blocks_in_zone ? end : map_.end_of_zone(last);
}

void birth::hold(std::uint64_t block, std::uint64_t blocks, const start_bits& objects) {
  if (blocks > 1) held_large_.add(block, end_of_large(block, blocks));
  start_bits& held = held_[block];
  for (std::size_t n = 0; n < start_bits::words; ++n) held.word(n) |= objects.word(n);
}

void birth::release(std::uint64_t block, std::uint64_t blocks, const start_bits& but) {
  const std::uint64_t end = blocks > 1 ? end_of_large(block, blocks) : block + 1;
  if (!but.empty()) {
    held_[block] = but;
    if (blocks > 1) return;
  } else {
    held_.erase(block);
    if (blocks > 1) held_large_.remove(block, end);
  }
  for (std::uint64_t b = block; b < end; ++b) {
    // Others will offer these, when they come to them. And who was to destroy a large object may have failed.
    if (b % blocks_in_zone < bookkeeping_blocks || (b >= scan_from_ && b < scan_end_)) continue;
    if (map_.find_transient_block(b) == nullptr) offer(b);
  }
}

bool birth::close(std::uint64_t block) {
  if (map_.find_transient_block(block) != nullptr) return false;
  closed_.insert(block);
  return true;
}

void birth::reopen(std::uint64_t block) {
  closed_.erase(block);
  // It may have become empty: then it was given back.
  if (map_.find_transient_block(block) == nullptr && map_.holds_persistent(block)) offer(block);
}

void birth::scan_old_blocks() {
  const std::uint64_t stop = std::min(scan_end_, scan_from_ + std::max<std::uint64_t>(tune_.old_blocks_at_once, 1));
  for (; scan_from_ < stop; ++scan_from_) {
    const std::uint64_t block = scan_from_;
    if (map_.kind_of_zone(block / blocks_in_zone) == zone_kind::continued) {
      scan_from_ = (block / blocks_in_zone + 1) * blocks_in_zone - 1;
      continue;
    }
    if (map_.find_transient_block(block) == nullptr) offer(block);
  }
}

void birth::offer(std::uint64_t block) {
  if (block % blocks_in_zone < bookkeeping_blocks) return;  // of a headed zone
  if (is_leaving(block)) return;                            // the commit will
  if (!map_.holds_persistent(block)) return give_back(block, 1);
  if (!has_blocks(map_.kind_of_zone(block / blocks_in_zone))) return;
  const record_view r = map_.record(block);
  if (r.entry.kind == block_kind::small && r.entry.used <= worth_filling_) sparse_.insert(block);
  if (r.entry.kind != block_kind::typed) return;
  for (std::size_t n = 0; n < pages_in_block; ++n) {
    if (!r.pages[n].is_typed()) {
      if (!has_held_in_page(block, n)) sparse_typed_.insert(block);
    } else if (is_worth_filling(block, r, n))
      class_of(r.pages[n]).sparse_pages.insert(map_.start_of(block) + n * typed_page_size);
  }
}

// [heap.transient.shared]: the tracker asks which bytes of a page are recoverable. Transient objects may have left
// other bytes beside persistent ones since the tracker compared the page last. Then the block counts as one with
// transient objects until the page was compared again.
bool birth::release_if_empty(transient_block& y) {
  if (!y.starts.empty() || y.touched != 0 || y.is_emptied || y.cursors != 0) return false;
  for (const area* in : {&transaction_area_, &other_area_})
    if (&y == in->within || &y == in->typed) return false;
  if (y.lane != 0 && &y == lanes_[y.lane - 1].in.typed) return false;
  if (y.is_shared && (map_.holds_persistent(y.first) || is_leaving(y.first))) {
    emptied_.push_back(&y);
    y.is_emptied = true;
    return false;
  }
  drop(y);
  return true;
}

bool birth::try_release(transient_block& y) noexcept {
  try {
    release_if_empty(y);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void birth::drop(transient_block& y) {
  assert(y.touched == 0 && !y.has_promoted && y.cursors == 0 && all_.contains(&y));
  if (!map_.holds_persistent(y.first) && !is_leaving(y.first))
    give_back(y.first, y.span);
  else
    offer(y.first);
  // Nothing fails from here on.
  map_.set_transient_block(y.first, y.span, nullptr);
  all_.erase(&y);
  reused_.erase(&y);
  delete &y;
}

// The tracker has just compared the open pages. If it throws, nothing has changed.
void birth::begin() {
  const std::scoped_lock lock(whole_);
  assert(!in_transaction_ && touched_.empty() && levels_.empty());
  area_at_begin_ = transaction_area_;
  in_transaction_ = true;
  std::erase_if(unreleased_, [&](transient_block* y) { return try_release(*y); });
  offer_freed();
  touched_ = std::exchange(unreleased_, {});
  for (transient_block* const y : touched_) {
    y->starts_at_begin = y->starts;
    y->pages_at_begin = y->pages;
    y->touched = level();
  }
  std::erase_if(compared_, [&](transient_block* y) {
    try {
      drop(*y);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
  if (compared_.empty()) compared_.swap(emptied_);
}

void birth::abort() noexcept {
  const std::scoped_lock lock(whole_);
  assert(levels_.empty());
  in_transaction_ = false;
  // Gives back everything that the transaction has taken. The area returns to the block that it had at begin(), and the
  // memory behind that position is no longer zero. Each block that the area has had since begin() is either the
  // transaction's or was there before, never both [heap.blocks.once].
  restore_cursors(0);
  std::vector<transient_block*> touched = std::exchange(touched_, {});
  for (transient_block* y : touched) {
    y->starts = y->starts_at_begin;
    y->pages = y->pages_at_begin;
    y->touched = 0;
  }
  restore_area(std::exchange(area_at_begin_, {}));
  std::erase_if(touched, [&](transient_block* y) { return try_release(*y); });
  unreleased_ = std::move(touched);
}

// What cannot be given back for want of memory is used next.
void birth::restore_area(area before) noexcept {
  for (run* const left : {&transaction_area_.ahead, &transaction_area_.spare}) {
    try {
      give_back(*left);
    } catch (const std::bad_alloc&) {
    }
  }
  before.ahead = transaction_area_.ahead;
  before.spare = transaction_area_.spare;
  before.wanted = transaction_area_.wanted;
  before.is_zeroed = before.typed_is_zeroed = false;
  transaction_area_ = std::move(before);
}

void birth::prepare_commit(std::size_t retired, const std::vector<std::uint64_t>& freed) {
  touched_.reserve(touched_.size() + promoted_.size() + retired);
  unoffered_.reserve(unoffered_.size() + freed.size());
  leaving_ = freed;
}

void birth::committed(const address_set& retired, const std::vector<std::uint64_t>& freed) noexcept {
  const std::scoped_lock lock(whole_);
  assert(levels_.empty());
  leaving_.clear();
  in_transaction_ = false;
  area_at_begin_ = {};
  keep_cursors();
  std::vector<transient_block*> changed = std::exchange(touched_, {});
  for (transient_block* y : changed) y->touched = 0;
  for (transient_block* y : promoted_) {
    assert(y->promoted.is_within(y->starts));
    for (std::size_t n = 0; n < start_bits::words; ++n) y->starts.word(n) &= ~y->promoted.word(n);
    y->promoted = {};
    y->has_promoted = false;
    changed.push_back(y);
  }
  promoted_.clear();
  for (const address object : retired) {
    transient_block* const y = map_.find_transient_block(map_.block_of(object));
    if (y == nullptr) continue;
    y->starts.reset((object - map_.start_of(y->first)) / granule);
    changed.push_back(y);
  }
  std::ranges::sort(changed);
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  std::erase_if(changed, [&](transient_block* y) {
    try {
      if (!release_if_empty(*y) && y->starts.empty() && !y->is_shared) map_.set_quiet(*y, true);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
  unreleased_ = std::move(changed);
  for (const std::uint64_t block : freed) unoffered_.push_back(block);
  offer_freed();
}

void birth::offer_freed() noexcept {
  std::erase_if(unoffered_, [&](std::uint64_t block) {
    // scan_old_blocks() finds the blocks that it has not scanned yet.
    if (map_.find_transient_block(block) != nullptr || (block >= scan_from_ && block < scan_end_)) return true;
    try {
      offer(block);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
}

void birth::commit_failed() noexcept {
  leaving_.clear();
  for (transient_block* y : promoted_) {
    y->promoted = {};
    y->has_promoted = false;
  }
  promoted_.clear();
}

}  // namespace tenure::heap
