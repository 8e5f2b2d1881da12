// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/evacuator.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

#include <tenure/error.hpp>

#include "collection/handles.hpp"
#include "collection/root_snapshot.hpp"
#include "collection/unlogged_references.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

evacuator::evacuator(store_state& of, const collection_options& how, quarantined_objects& quarantined)
    : of_(of),
      how_(how),
      quarantined_(quarantined),
      sparse_(*of.databases,
              [this](const database_state& in, const known_type& type) { return pinning_.pins_targets(in, type); }),
      at_once_(how.roots == program_roots::handles ? std::min<std::uint64_t>(block_size, how.evacuation.bytes_at_once)
                                                   : how.evacuation.bytes_at_once) {}

void evacuator::require_right(const evacuation& how) {
  if (how.enabled && (how.sparse_percent < 1 || how.sparse_percent > 90 || how.bytes_at_once == 0))
    throw error(errc::bad_option, "evacuation of blocks that are in use to " + std::to_string(how.sparse_percent) +
                                      " percent, " + std::to_string(how.bytes_at_once) +
                                      " bytes at once: from 1 to 90 percent are possible, and at least 1 byte");
}

// --- Looking for references ---------------------------------------------------------------------------------------------

bool evacuator::look_at_some(std::uint64_t bytes) {
  const database_set& all = *of_.databases;
  for (std::uint64_t done = 0; done < bytes;) {
    if (looked_at_ == all.size()) return false;
    const database_state& d = all[looked_at_];
    if (block_ >= d.header().blocks_end) {
      ++looked_at_;
      block_ = part_ = 0;
      continue;
    }
    if (!has_blocks(d.map->kind_of_zone(block_ / blocks_in_zone))) {  // the rest of a large object
      block_ = (block_ / blocks_in_zone + 1) * blocks_in_zone;
      continue;
    }
    // A large object is alone in its block. Of others, the block is looked at as a whole.
    const std::uint64_t begin = std::exchange(part_, 0),
                        most = d.map->entry(block_).kind == block_kind::large ? bytes : block_size;
    d.map->for_each_persistent(block_, block_ + 1, [&](address object) {
      const object_facts facts = d.map->facts(object);
      const std::uint64_t from = std::min(begin, facts.size), to = from + std::min(facts.size - from, most);
      sparse_.note_references(looked_at_, facts, from, to);
      if (to < facts.size) part_ = to;
      done += to - from;
    });
    done += 64;
    if (part_ == 0) ++block_;
  }
  return true;
}

// What a transaction takes away for a while, and puts back, does not differ in the end. But somebody may have looked in between
// [heap.collection.unchanged]. No transaction is open when the first objects move.
void evacuator::look_again(const rvm::transaction& tx) {
  if (!has_moved_) tx.for_each_written_page([this](const rvm::memory_range& page) { sparse_.note_changed(page); });
}

void evacuator::note_commit(const rvm::transaction& tx, std::span<const rvm::memory_range> changes) {
  sparse_.note_commit(changes);
  look_again(tx);
}

void evacuator::note_abort(const rvm::transaction& tx, std::span<const rvm::memory_range> changes) {
  sparse_.note_abort(tx, changes);
  look_again(tx);
}

// --- What must stay -----------------------------------------------------------------------------------------------------

void evacuator::pin_what_the_program_has() {
  const database_set& all = *of_.databases;
  if (how_.roots == program_roots::all_memory) {
    root_snapshot roots(all);
    all.with_births_locked([&] { roots.take(how_.roots); });
    roots.finish();
    for (std::size_t n = 0; n < all.size(); ++n)
      roots.for_each_root(n, [&](address granule_of) {
        for (const address at : {granule_of, granule_of + 8})
          if (all[n].map->find_persistent(at) == at) sparse_.pin(at);
      });
    for (const transient_reference& r : roots.transient_references())
      for (const address at : {r.to, r.to + 8}) sparse_.pin(at);
    return;
  }
  bool is_complete = true;
  all.with_births_locked([&] {
    {
      const std::scoped_lock lock(detail::handles::mutex());
      detail::handles::for_each([&](const void* to) { sparse_.pin(reinterpret_cast<address>(to)); });
    }
    const auto pin = [&](address to, bool) { sparse_.pin(to); };
    for (const auto& d : all) {
      d->birth->for_each_transient_block([&](const transient_block& y) {
        y.not_moved().for_each([&](std::uint64_t g) {
          const address object = object_of_bit(d->map->start_of(y.first), y.pages, g);
          for_each_unlogged_reference(*d, d->map->transient_facts(y, object), true, pin);
        });
      });
      is_complete = for_each_with_transient_fields(
                        *d, d->region.size(),
                        [&](const object_facts& object) { for_each_unlogged_reference(*d, object, false, pin); }) &&
                    is_complete;
    }
  });
  if (!is_complete)
    throw error(errc::not_stopped, of_.directory +
                                       ": nothing was moved: the kernel does not tell in "
                                       "/proc/thread-self/maps and pagemap which memory the program has");
}

bool evacuator::may_move(std::size_t database, const known_type& type, address object) const {
  return !never_moves(type) && !sparse_.is_pinned(database, object) && !of_.weak.leads_to(object);
}

// --- Moving -------------------------------------------------------------------------------------------------------------

// Of whole blocks, at least one.
void evacuator::plan(std::uint64_t bytes, collect_report& report) {
  moved_.clear();
  planned_ = 0;
  for (std::uint64_t all = 0; next_ + planned_ < sparse_.size() && all < bytes; ++planned_) {
    const sparse_block& block = sparse_[next_ + planned_];
    if (block.is_left) continue;
    database_state& d = (*of_.databases)[block.database];
    d.map->for_each_persistent(block.number, block.number + 1, [&](address object) {
      const object_facts facts = d.map->facts(object);
      const known_type& type = d.types->at(facts.type);
      if (is_of_the_heap(type)) return;
      if (!may_move(block.database, type, object)) return void(++report.pinned);
      moved_.add(d, type, object, facts.size);
      all += facts.end - facts.begin;
    });
  }
}

void evacuator::rewrite_references() {
  for (const moved_objects::move& m : moved_.all())
    moved_.rewrite(*m.type, m.to, m.size, 0, m.size, moved_objects::bytes_of::copy);
  for (std::size_t n = next_; n < next_ + planned_; ++n)
    for (const place& from : sparse_[n].incoming) {
      const database_state& d = (*of_.databases)[from.database()];
      moved_.rewrite_stored(d, from.in(d.home), from.in(d.home) + granule);
    }
}

void evacuator::destroy_old() {
  for (const auto& d : *of_.databases) {
    address_list<address> gone;
    for (const moved_objects::move& m : moved_.all())
      if (m.in == d.get()) gone.push_back(m.from);
    if (gone.empty()) continue;
    if (how_.quarantine != quarantine::none) quarantined_.hold(*d, gone, how_.quarantine);
    d->destroyed.insert(gone.begin(), gone.end());
  }
  of_.weak.expect_none_destroyed();
}

void evacuator::abort() {
  if (of_.is_writer()) of_.abort();
  quarantined_.aborted();
}

bool evacuator::move_some(const std::function<bool()>& is_broken, collect_report& report) {
  if (next_ == sparse_.size()) return false;
  of_.begin();
  const auto began = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration fixed{};  // what it takes, however little is moved
  std::uint64_t pinned = report.pinned;
  try {
    if (is_broken()) {
      of_.abort();
      return false;
    }
    has_moved_ = true;
    pin_what_the_program_has();
    fixed = std::chrono::steady_clock::now() - began;
    plan(at_once_, report);
    moved_.copy();
    rewrite_references();
    destroy_old();
    of_.label = "evacuate";
    of_.stays_in_place = true;
    (void)of_.commit();
    quarantined_.committed();
  } catch (const error& e) {
    abort();
    report.pinned = pinned;
    if (e.code() == errc::out_of_memory || e.code() == errc::segment_full) return false;  // what is not moved stays
    // What has become garbage since it was marked may refer to what the program has destroyed [heap.garbage.opaque].
    const bool is_garbage = e.code() == errc::cannot_persist;
    // Others may be planned with it that have nothing to move, however little is moved at once.
    const bool is_one_block = planned_ <= 1 || at_once_ == 1;
    if (!is_garbage && (e.code() != errc::too_big || is_one_block)) throw;
    at_once_ = is_one_block ? how_.evacuation.bytes_at_once : std::max<std::uint64_t>(at_once_ / 2, 1);
    if (!is_one_block) planned_ = 0;  // otherwise the block stays
    moved_.clear();
    return true;
  } catch (const std::bad_alloc&) {  // what is not moved stays
    abort();
    report.pinned = pinned;
    return false;
  } catch (...) {
    abort();
    throw;
  }
  const auto took = std::chrono::steady_clock::now() - began;
  report.longest_move = std::max(report.longest_move, std::chrono::duration<double>(took).count());
  if (how_.roots == program_roots::handles) {
    // Less than half of the time for moving would be wasted on looking at the same handles again and again.
    const auto most = std::max<std::chrono::steady_clock::duration>(how_.evacuation.pause, 2 * fixed);
    if (took > most) at_once_ = std::max<std::uint64_t>(at_once_ / 2, 1);
    if (took < fixed + (most - fixed) / 3) at_once_ = std::min(at_once_ * 2, how_.evacuation.bytes_at_once);
  }
  return true;
}

void evacuator::leave_moved(collect_report& report) {
  report.moved += moved_.all().size();
  for (const moved_objects::move& m : moved_.all()) report.moved_bytes += m.size;
  for (std::size_t n = next_; n < next_ + planned_; ++n) {
    sparse_block& block = sparse_[n];
    const database_state& d = (*of_.databases)[block.database];
    if (!block.is_left && !d.map->holds_persistent(block.number)) ++report.emptied_blocks;
    sparse_.leave(block);
  }
  next_ += std::exchange(planned_, 0);
  moved_.clear();
}

}  // namespace tenure
