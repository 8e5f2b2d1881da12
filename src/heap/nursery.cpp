// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "heap/nursery.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <tenure/error.hpp>

namespace tenure::heap {

namespace {

constexpr std::uint64_t most_in_run = 64;                       // blocks that an area takes at once: 2 MiB
constexpr std::uint64_t old_blocks_at_once = 1024;              // looked at when blocks are wanted
constexpr std::uint64_t worth_filling = granules_in_block / 2;  // granules in use, at most
constexpr std::uint64_t least_hole = 128;                       // bytes

constexpr address up(address at, std::uint64_t to) { return (at + to - 1) & ~(to - 1); }

}  // namespace

nursery::nursery(block_map& map, rvm::region& region, grower grow)
    : map_(map), region_(region), grow_(std::move(grow)), fresh_(map.header().blocks_end), look_end_(fresh_) {
  fresh_ = std::max<std::uint64_t>(fresh_, bookkeeping_blocks);
}

nursery::~nursery() {
  for (young_block* y : all_) {
    map_.set_young(y->first, y->span, nullptr);
    delete y;
  }
}

nursery::counts nursery::made() const {
  const std::scoped_lock lock(mutex_);
  return made_;
}

// The segment grows and pages are opened without the lock: commits take it while they keep others from growing.
address nursery::make(std::uint32_t type, std::uint64_t size, std::uint64_t alignment, bool inside) {
  alignment = std::max(alignment, granule);
  size = std::max<std::uint64_t>(size, 1);
  if (size > map_.capacity() / 2 || alignment > block_size)
    throw error(errc::out_of_memory, "an object of " + std::to_string(size) + " bytes, aligned to " +
                                         std::to_string(alignment) + ", is too large for this database");
  std::unique_lock lock(mutex_);
  const bool mine = inside && in_transaction_;
  const bool is_small = size + alignment <= largest_small;
  area& in = mine ? inside_ : outside_;
  address at = is_small ? try_small(in, size, alignment, mine) : 0;
  bool zeroed = in.blocks.zeroed;
  while (at == 0) {
    const std::uint64_t blocks = (up(header_bytes(size), alignment) + size + block_size - 1) / block_size;
    run got = is_small ? choose(1, in.wanted) : choose(blocks, blocks);
    lock.unlock();
    try {
      open(got);
    } catch (...) {
      lock.lock();
      give_back(got);
      throw;
    }
    lock.lock();
    if (is_small) {
      if (in.spare.blocks != 0) give_back(in.spare);  // another thread was as fast
      in.spare = got;
      in.wanted = std::min(2 * in.wanted, most_in_run);
      at = try_small(in, size, alignment, mine);
      zeroed = in.blocks.zeroed;
    } else {
      at = place_large(got, size, alignment, mine);
      zeroed = got.zeroed;
    }
  }
  if (!zeroed) std::memset(reinterpret_cast<void*>(at), 0, size);
  if (size >= huge_size) std::memcpy(reinterpret_cast<void*>(at - 16), &size, sizeof size);
  header_of(at) = {type, size >= huge_size ? huge_size : static_cast<std::uint32_t>(size)};
  ++made_.objects;
  made_.bytes += size + header_bytes(size);
  return at;
}

address nursery::try_small(area& in, std::uint64_t size, std::uint64_t alignment, bool inside) {
  address at = up(in.next + sizeof(object_header), alignment);
  while (at + size > in.limit) {
    if (!next_hole(in) && !next_block(in, inside)) return 0;
    at = up(in.next + sizeof(object_header), alignment);
  }
  // What is between objects is logged with them: zero, whatever was there.
  if (!in.blocks.zeroed) std::memset(reinterpret_cast<void*>(in.next), 0, at - in.next);
  in.next = at + size;
  if (inside) touch(*in.young);
  in.young->starts.set((at - map_.start_of(in.young->first)) / granule);
  return at;
}

address nursery::place_large(const run& in, std::uint64_t size, std::uint64_t alignment, bool inside) {
  const std::uint64_t before = up(header_bytes(size), alignment);
  young_block& y = young_at(in.first, in.blocks, true);
  if (inside) touch(y);
  y.starts.set(before / granule);
  return map_.start_of(in.first) + before;
}

void nursery::touch(young_block& y) {
  if (y.touched) return;
  y.touched = true;
  y.starts_at_begin = y.starts;
  touched_.push_back(&y);
}

young_block& nursery::young_at(std::uint64_t block, std::uint64_t span, bool is_large) {
  if (young_block* const known = map_.young(block)) return *known;
  auto made = std::make_unique<young_block>();
  made->first = block;
  made->span = static_cast<std::uint32_t>(span);
  made->is_large = is_large;
  all_.insert(made.get());
  map_.set_young(block, span, made.get());
  return *made.release();
}

bool nursery::next_hole(area& in) {
  if (in.holes.empty()) return false;
  std::tie(in.next, in.limit) = in.holes.back();
  in.holes.pop_back();
  return true;
}

void nursery::leave_block(area& in, bool inside) {
  young_block* const last = std::exchange(in.young, nullptr);
  in.next = in.limit = 0;
  if (last == nullptr) return;
  if (inside)
    touch(*last);  // an abort comes back to it
  else
    drop_if_empty(*last);
}

bool nursery::next_block(area& in, bool inside) {
  leave_block(in, inside);
  if (in.blocks.blocks > 1) {
    ++in.blocks.first;
    --in.blocks.blocks;
  } else {
    in.blocks = {};
    if (inside && fill_again(in)) return true;
    if (in.spare.blocks == 0) return false;
    in.blocks = std::exchange(in.spare, {});
  }
  in.young = &young_at(in.blocks.first, 1, false);
  in.next = map_.start_of(in.blocks.first);
  in.limit = in.next + block_size;
  return true;
}

// The gaps between the persistent objects of a block that is mostly empty.
bool nursery::fill_again(area& in) {
  look_at_old_blocks();
  while (!sparse_.empty()) {
    const std::uint64_t block = sparse_.back();
    sparse_.pop_back();
    // The zone may have been emptied since, and a large object may lie where its bookkeeping was.
    if (map_.kind_of_zone(block / blocks_in_zone) != zone_kind::ordinary) continue;
    const block_entry& e = map_.entry(block);
    if (e.kind != block_kind::small || e.used > worth_filling || map_.young(block) != nullptr) continue;
    in.holes.clear();
    address free_from = map_.start_of(block);
    map_.starts(block).for_each([&](std::uint64_t g) {
      const address object = map_.start_of(block) + g * granule;
      const std::uint64_t size = size_of_object(object);
      if (object - header_bytes(size) >= free_from + least_hole)
        in.holes.emplace_back(free_from, object - header_bytes(size));
      free_from = object + size;
    });
    if (const address end = map_.start_of(block) + block_size; end >= free_from + least_hole)
      in.holes.emplace_back(free_from, end);
    if (in.holes.empty()) continue;
    in.blocks = {block, 1, false};
    in.young = &young_at(block, 1, false);
    std::ranges::reverse(in.holes);
    return next_hole(in);
  }
  return false;
}

nursery::run nursery::choose(std::uint64_t least, std::uint64_t most) {
  if (least > blocks_in_zone - bookkeeping_blocks) return choose_zones(least);
  look_at_old_blocks();
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [first, blocks] = *at;
    if (blocks < least) continue;
    const std::uint64_t taken = std::min(blocks, most);
    free_.erase(at);
    if (blocks > taken) free_.emplace(first + taken, blocks - taken);
    return {first, taken, false};
  }
  return choose_fresh(least, most);
}

// What is larger than a zone begins where one does, and goes on over the bookkeeping of those that follow: they must be unused.
nursery::run nursery::choose_zones(std::uint64_t blocks) {
  while (look_from_ < look_end_) look_at_old_blocks();
  const std::uint64_t following = (blocks + bookkeeping_blocks - 1) / blocks_in_zone;
  const auto is_free = [&](std::uint64_t zone) {
    const auto at = free_.find(zone * blocks_in_zone + bookkeeping_blocks);
    return at != free_.end() && at->second == blocks_in_zone - bookkeeping_blocks;
  };
  for (const auto& [first, length] : free_) {
    const std::uint64_t zone = first / blocks_in_zone;
    if (!is_free(zone)) continue;
    std::uint64_t found = 0;
    while (found < following && map_.kind_of_zone(zone + found + 1) == zone_kind::unused && is_free(zone + found + 1))
      ++found;
    if (found < following) continue;
    const std::uint64_t begin = first;
    for (std::uint64_t z = zone; z <= zone + following; ++z) free_.erase(z * blocks_in_zone + bookkeeping_blocks);
    return {begin, blocks, false};
  }
  return choose_fresh(blocks, blocks);
}

nursery::run nursery::choose_fresh(std::uint64_t least, std::uint64_t most) {
  std::uint64_t first = fresh_, taken = least;
  if (const std::uint64_t left = blocks_in_zone - first % blocks_in_zone; least <= left) {
    taken = std::min(most, left);
  } else if (first % blocks_in_zone > bookkeeping_blocks) {
    // The rest of the zone stays free for others; what is larger than any zone goes on through those that follow.
    first += left + bookkeeping_blocks;
  }
  const std::uint64_t end = first + taken;
  if (end > map_.blocks())
    throw error(errc::out_of_memory, "the database is full: its reservation of " + std::to_string(map_.capacity()) +
                                         " bytes has no room for " + std::to_string(least * block_size) +
                                         " more; make a database with a larger reservation");
  if (first != fresh_) give_back(fresh_, blocks_in_zone - fresh_ % blocks_in_zone);
  fresh_ = end;
  // The next block begins behind the bookkeeping of its zone; the rest of a zone that an object goes on into has none.
  if ((end - 1) / blocks_in_zone != first / blocks_in_zone)
    fresh_ = (end + blocks_in_zone - 1) / blocks_in_zone * blocks_in_zone;
  if (fresh_ % blocks_in_zone == 0) fresh_ += bookkeeping_blocks;
  return {first, taken, true};
}

void nursery::open(const run& which) {
  grow_((which.first + which.blocks) * block_size);
  region_.open_untracked(reinterpret_cast<void*>(map_.start_of(which.first)), which.blocks * block_size);
}

void nursery::give_back(run& which) {
  if (which.blocks != 0) give_back(which.first, which.blocks);
  which = {};
}

void nursery::give_back(std::uint64_t first, std::uint64_t blocks) {
  // Of the zones that a large object went on into nothing else was in use.
  const std::uint64_t end = first + blocks;
  if (const std::uint64_t zone = first / blocks_in_zone; (end - 1) / blocks_in_zone != zone) {
    for (std::uint64_t z = zone + 1; z * blocks_in_zone < end; ++z)
      give_back(z * blocks_in_zone + bookkeeping_blocks, blocks_in_zone - bookkeeping_blocks);
    blocks = (zone + 1) * blocks_in_zone - first;
  }
  auto after = free_.upper_bound(first);
  // A block whose last objects, persistent and transient, go in one commit is given back for both.
  if (after != free_.begin() && std::prev(after)->first + std::prev(after)->second > first) return;
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == first && first % blocks_in_zone != bookkeeping_blocks) {
      first = before->first;
      blocks += before->second;
      free_.erase(before);
    }
  }
  if (after != free_.end() && first + blocks == after->first && after->first % blocks_in_zone != bookkeeping_blocks) {
    blocks += after->second;
    free_.erase(after);
  }
  free_.emplace(first, blocks);
}

void nursery::look_at_old_blocks() {
  const std::uint64_t stop = std::min(look_end_, look_from_ + old_blocks_at_once);
  for (; look_from_ < stop; ++look_from_) {
    const std::uint64_t block = look_from_;
    if (map_.kind_of_zone(block / blocks_in_zone) == zone_kind::continued) {
      look_from_ = (block / blocks_in_zone + 1) * blocks_in_zone - 1;
      continue;
    }
    if (block % blocks_in_zone < bookkeeping_blocks || map_.young(block) != nullptr) continue;
    const block_entry& e = map_.entry(block);
    if (map_.kind_of_zone(block / blocks_in_zone) == zone_kind::unused || e.kind == block_kind::unused)
      give_back(block, 1);
    else if (e.kind == block_kind::small && e.used <= worth_filling)
      sparse_.push_back(block);
  }
}

void nursery::unmake(address object) {
  const std::scoped_lock lock(mutex_);
  young_block* const y = map_.young(map_.block_of(object));
  assert(y != nullptr);
  y->starts.reset((object - map_.start_of(y->first)) / granule);
  if (y->is_large) drop_if_empty(*y);
}

void nursery::drop_if_empty(young_block& y) {
  if (!y.starts.empty() || y.touched || &y == inside_.young || &y == outside_.young) return;
  const block_entry* const stored =
      map_.kind_of_zone(y.first / blocks_in_zone) == zone_kind::ordinary ? &map_.entry(y.first) : nullptr;
  if (stored == nullptr || stored->kind == block_kind::unused)
    give_back(y.first, y.span);
  else if (stored->kind == block_kind::small && stored->used <= worth_filling)
    sparse_.push_back(y.first);
  map_.set_young(y.first, y.span, nullptr);
  all_.erase(&y);
  delete &y;
}

void nursery::begin() {
  const std::scoped_lock lock(mutex_);
  in_transaction_ = true;
  inside_at_begin_ = inside_;
}

void nursery::abort() {
  const std::scoped_lock lock(mutex_);
  in_transaction_ = false;
  for (young_block* y : touched_) {
    y->starts = y->starts_at_begin;
    y->touched = false;
  }
  const auto touched = std::exchange(touched_, {});
  // The area goes back to the block where it was at begin(), the memory behind it being zero no longer. What it has left of
  // other blocks is free.
  const std::uint64_t wanted = inside_.wanted;
  run spare = std::exchange(inside_.spare, {});
  const bool same_run =
      inside_.blocks.first + inside_.blocks.blocks == inside_at_begin_.blocks.first + inside_at_begin_.blocks.blocks;
  if (!same_run && inside_.blocks.blocks > 1) give_back(inside_.blocks.first + 1, inside_.blocks.blocks - 1);
  // The run of begin() was used up, if it is another one: only its first block can be gone on with.
  const bool used_up = !same_run && inside_at_begin_.blocks.blocks > 1;
  inside_ = std::exchange(inside_at_begin_, {});
  inside_.wanted = wanted;
  inside_.blocks.zeroed = false;
  if (used_up) inside_.blocks.blocks = 1;
  if (inside_.spare.blocks == 0) inside_.spare = std::exchange(spare, {});
  give_back(spare);
  for (young_block* y : touched) {
    const std::uint64_t behind = y->first - inside_.blocks.first;
    if (y->starts.empty() && !y->is_large && behind != 0 && behind < inside_.blocks.blocks) {
      map_.set_young(y->first, y->span, nullptr);  // the area will come to it again
      all_.erase(y);
      delete y;
    } else {
      drop_if_empty(*y);
    }
  }
}

void nursery::committed(const std::unordered_set<address>& retired, const std::vector<std::uint64_t>& freed) {
  const std::scoped_lock lock(mutex_);
  in_transaction_ = false;
  inside_at_begin_ = {};
  std::vector<young_block*> changed = std::exchange(touched_, {});
  for (young_block* y : changed) y->touched = false;
  for (young_block* y : promoted_) {
    for (std::size_t n = 0; n < start_bits::words; ++n) y->starts.word(n) &= ~y->promoted.word(n);
    y->promoted = {};
    y->has_promoted = false;
    changed.push_back(y);
  }
  promoted_.clear();
  for (const address object : retired) {
    young_block* const y = map_.young(map_.block_of(object));
    if (y == nullptr) continue;
    y->starts.reset((object - map_.start_of(y->first)) / granule);
    changed.push_back(y);
  }
  std::ranges::sort(changed);
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (young_block* y : changed) drop_if_empty(*y);
  for (const std::uint64_t block : freed) {
    // look_at_old_blocks() comes to those that it has not seen.
    if (map_.young(block) != nullptr || (block >= look_from_ && block < look_end_)) continue;
    const block_entry& e = map_.entry(block);
    if (map_.kind_of_zone(block / blocks_in_zone) == zone_kind::unused || e.kind == block_kind::unused)
      give_back(block, 1);
    else if (e.kind == block_kind::small && e.used <= worth_filling)
      sparse_.push_back(block);
  }
}

void nursery::forget_promoted() {
  for (young_block* y : promoted_) {
    y->promoted = {};
    y->has_promoted = false;
  }
  promoted_.clear();
}

void nursery::for_each_young(const std::function<void(address)>& f) const {
  const std::scoped_lock lock(mutex_);
  for (const young_block* y : all_)
    y->starts.for_each([&](std::uint64_t g) { f(map_.start_of(y->first) + g * granule); });
}

}  // namespace tenure::heap
