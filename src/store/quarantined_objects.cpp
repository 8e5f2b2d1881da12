// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/quarantined_objects.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include <tenure/barriers.hpp>

#include "objects/object_walk.hpp"

namespace tenure {

using namespace heap;

namespace {

// Of a larger object, the first bytes only: the log has them all.
constexpr std::uint64_t most_filled = 4096;
constexpr std::size_t most_told = 64;

}  // namespace

// With the births locked.
void quarantined_objects::hold_block(database_state& in, std::uint64_t block, std::uint64_t blocks,
                                     const page_words& pages, const start_bits& objects) {
  const place where{&in, block};
  const start_bits before = in.birth->held_in(block);  // once more, if memory was short when a transaction was aborted
  const auto [at, is_new] = held_.try_emplace(where);
  try {
    in.birth->hold(block, blocks, objects);
  } catch (...) {  // others may take the block: it is nothing to be released
    if (is_new) held_.erase(at);
    throw;
  }
  held_block& held = at->second;
  held.blocks = blocks;
  held.taken = std::chrono::system_clock::now();
  // A page that has lost all its objects has no type any more, but cannot have got another one.
  for (std::size_t n = 0; n < pages.size(); ++n)
    if (pages[n].is_typed()) held.pages[n] = pages[n];
  objects.for_each([&](std::uint64_t bit) {
    if (before.test(bit)) return;
    held.filled.reset(bit);
    held.told.reset(bit);
    const object_facts facts = facts_of(where, held, bit);
    ++objects_;
    bytes_ += facts.end - facts.begin;
  });
}

void quarantined_objects::hold(database_state& in, std::span<const address> gone, quarantine how) {
  if (how == quarantine::none) return;
  const block_map& map = *in.map;
  in.birth->with_lock([&] {
    for (std::size_t n = 0; n < gone.size();) {
      const std::uint64_t block = map.block_of(gone[n]);
      const record_view r = map.record(block);
      start_bits objects;
      for (; n < gone.size() && map.block_of(gone[n]) == block; ++n)
        objects.set((gone[n] - map.start_of(block)) / granule);
      held_now_.emplace_back(place{&in, block}, objects);
      hold_block(in, block, r.entry.kind == block_kind::large ? r.entry.span : 1,
                 r.entry.kind == block_kind::typed ? r.pages : page_words{}, objects);
      held_.at({&in, block}).transaction = last_transaction_;
    }
  });
  if (how != quarantine::check) return;
  for (const address object : gone) {
    const std::uint64_t length = std::min(map.facts(object).size, most_filled);
    announce_store(reinterpret_cast<const void*>(object), length);
    std::memset(reinterpret_cast<void*>(object), pattern, length);
    const std::uint64_t block = map.block_of(object);
    held_.at({&in, block}).filled.set((object - map.start_of(block)) / granule);
  }
}

// Memory may be too short to offer the block for new objects, when births do not hold it any more. Then it is held again. If that
// fails, or some blocks of a large object may be others' already, it is forgotten: offered twice, it would have two owners. Its space
// is lost until the store is opened again.
void quarantined_objects::release(std::map<place, held_block>::iterator which, const start_bits& but) {
  const auto [in, block] = which->first;
  const std::uint64_t blocks = which->second.blocks;
  const start_bits before = in->birth->held_in(block);
  auto known = held_.extract(which);
  try {
    in->birth->release(block, blocks, but);
  } catch (const std::bad_alloc&) {
    if (blocks == 1) {
      in->birth->hold(block, blocks, before);
      held_.insert(std::move(known));
    }
    throw;
  }
  if (!but.empty()) held_.insert(std::move(known));
}

// What memory is too short for stays held until the next cycle.
void quarantined_objects::aborted() noexcept {
  for (const auto& [where, objects] : std::exchange(held_now_, {})) {
    const auto at = held_.find(where);
    if (at == held_.end()) continue;
    const birth& births = *where.first->birth;
    try {
      where.first->birth->with_lock([&, &where = where, &objects = objects] {
        start_bits left = births.held_in(where.second);
        objects.for_each([&](std::uint64_t bit) {
          if (!left.test(bit)) return;
          const object_facts facts = facts_of(where, at->second, bit);
          --objects_;
          bytes_ -= facts.end - facts.begin;
          left.reset(bit);
        });
        release(at, left);
      });
    } catch (const std::bad_alloc&) {
    }
  }
}

void quarantined_objects::hold_transient(database_state& in, const transient_block& block, const start_bits& kept) {
  start_bits going;
  for (std::size_t n = 0; n < start_bits::words; ++n) going.word(n) = block.starts.word(n) & ~kept.word(n);
  if (going.empty()) return;
  hold_block(in, block.first, block.span, block.pages, going);
  // Exact references to what a commit has copied are refused. Others are no uses, but words that happen to lead there [heap.copying].
  start_bits& told = held_.at({&in, block.first}).told;
  for (std::size_t n = 0; n < start_bits::words; ++n) told.word(n) |= going.word(n) & block.moved.word(n);
}

object_facts quarantined_objects::facts_of(const place& where, const held_block& what, std::uint64_t bit) {
  const address object = object_of_bit(where.first->map->start_of(where.second), what.pages, bit);
  const page_word page = what.pages[bit * granule / typed_page_size];
  object_facts facts = page.is_typed() ? facts_of_typed(object, page) : facts_of_headed(object);
  // Somebody may have written to the header.
  const address end = where.first->map->start_of(where.second + what.blocks);
  if (facts.end > end || facts.end < object) facts.end = end;
  facts.size = std::min(facts.size, facts.end - object);
  return facts;
}

// Returns those that are used.
start_bits quarantined_objects::used_in_block(const place& where, held_block& what, const use_of& is_used,
                                              collect_report& report) {
  const database_state& in = *where.first;
  start_bits held, still;
  in.birth->with_lock([&] { held = in.birth->held_in(where.second); });
  held.for_each([&](std::uint64_t bit) {
    const object_facts facts = facts_of(where, what, bit);
    // Whoever was to destroy it may have failed.
    if (in.find_start(reinterpret_cast<const void*>(facts.at))) return;
    const auto* const first = reinterpret_cast<const unsigned char*>(facts.at);
    const bool was_changed = what.filled.test(bit) && std::any_of(first, first + std::min(facts.size, most_filled),
                                                                  [](unsigned char each) { return each != pattern; });
    const bool is_referred_to = is_used(in, facts.begin, facts.end);
    const std::uint64_t bytes = facts.end - facts.begin;
    if (!was_changed && !is_referred_to) {
      ++report.confirmed;
      report.confirmed_bytes += bytes;
      return;
    }
    still.set(bit);
    ++objects_;
    bytes_ += bytes;
    if (what.told.test(bit)) return;
    if (report.uses.size() < most_told) {
      const known_type* const type = in.types->find(facts.type);
      report.uses.push_back({reinterpret_cast<const void*>(facts.at), type != nullptr ? type->of->name : std::string(),
                             facts.size, what.taken, what.transaction, is_referred_to, was_changed});
    }
    told_now_.emplace_back(where, bit);
    what.told.set(bit);
    ++report.used_after_collection;
  });
  return still;
}

void quarantined_objects::confirm(const use_of& is_used, collect_report& report) {
  objects_ = bytes_ = 0;
  for (auto at = held_.begin(); at != held_.end();) {
    const database_state* const in = at->first.first;
    const start_bits used = used_in_block(at->first, at->second, is_used, report);
    const auto next = std::next(at);
    in->birth->with_lock([&] { release(at, used); });
    at = next;
  }
}

void quarantined_objects::end_cycle(bool is_reported) noexcept {
  for (const auto& [where, bit] : std::exchange(told_now_, {}))
    if (const auto at = held_.find(where); !is_reported && at != held_.end()) at->second.told.reset(bit);
}

}  // namespace tenure
