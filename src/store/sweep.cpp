// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/sweep.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include <tenure/error.hpp>

#include "objects/object_walk.hpp"
#include "os/system_error.hpp"

namespace tenure {

using namespace heap;

namespace {

[[noreturn]] void refuse(const database_state& in, std::uint64_t block) {
  throw error(errc::damaged, in.file + ": block " + std::to_string(block) + " at " +
                                 os::hexadecimal(reinterpret_cast<void*>(in.map->start_of(block))) +
                                 " is damaged; nothing was collected there; `tenure verify` tells all that is wrong");
}

}  // namespace

void sweep::count(counts_by_type& in, const known_type& of, std::uint64_t objects, std::uint64_t bytes) {
  type_count& sum = in[of.of->name];
  if (sum.objects == 0) sum.type = of.of->name;
  sum.objects += objects;
  sum.bytes += bytes;
}

void sweep::count_garbage(const known_type& of, std::uint64_t objects, std::uint64_t bytes) {
  report_.garbage += objects;
  report_.garbage_bytes += bytes;
  count(garbage_types_, of, objects, bytes);
}

void sweep::count_kept(const known_type& of, std::uint64_t objects, std::uint64_t bytes) {
  report_.kept += objects;
  report_.kept_bytes += bytes;
  count(kept_types_, of, objects, bytes);
}

void sweep::look_at_typed(const database_state& in, std::uint64_t block, const start_bits& kept) {
  const record_view r = in.map->record(block);
  std::uint64_t objects = 0;
  for (std::size_t page = 0; page < pages_in_block; ++page) {
    const std::uint64_t here = r.starts.count_in_page(page);
    if (here == 0) continue;
    const page_word word = r.pages[page];
    const known_type* const type = word.is_sound() ? in.types->find(word.type()) : nullptr;
    if (type == nullptr || here > word.slots()) refuse(in, block);
    std::uint64_t kept_here = 0;
    r.starts.for_each_in_page(page, [&](std::uint64_t g) { kept_here += kept.test(g); });
    objects += here;
    if (kept_here != 0) count_kept(*type, kept_here, kept_here * word.size());
    if (kept_here != here) count_garbage(*type, here - kept_here, (here - kept_here) * word.size());
  }
  if (objects != r.entry.used) refuse(in, block);
}

void sweep::look_at(const database_state& in, std::uint64_t block, address_list<address>& garbage) {
  if (!has_blocks(in.map->kind_of_zone(block / blocks_in_zone))) return;
  const block_entry& entry = in.map->entry(block);
  if (!block_map::has_objects(entry.kind)) return;
  const start_bits kept = kept_(in, block);
  if (entry.kind == block_kind::typed) {
    look_at_typed(in, block, kept);
  } else {
    std::uint64_t granules = 0;
    in.map->starts(block).for_each([&](std::uint64_t g) {
      const sound_object object = sound_at(in, in.map->start_of(block) + g * granule);
      if (!object) refuse(in, block);
      const object_facts facts = in.map->facts(object.at);
      const std::uint64_t bytes = facts.end - facts.begin;
      granules += granules_of(facts.size);
      if (kept.test(g))
        count_kept(*object.type, 1, bytes);
      else
        count_garbage(*object.type, 1, bytes);
    });
    if (entry.kind == block_kind::small && granules != entry.used) refuse(in, block);
  }
  find_garbage(in, block, kept, garbage);
}

void sweep::find_garbage(const database_state& in, std::uint64_t block, address_list<address>& garbage) const {
  find_garbage(in, block, kept_(in, block), garbage);
}

void sweep::find_garbage(const database_state& in, std::uint64_t block, const start_bits& kept,
                         address_list<address>& garbage) {
  in.map->for_each_persistent(block, block + 1, [&](address object) {
    if (!kept.test((object - in.map->start_of(block)) / granule)) garbage.push_back(object);
  });
}

// In fewer at a time if the log is too small for so many: it may be one that cannot grow.
ticket sweep::destroy(database_state& in, std::span<const address> gone) {
  ticket done;
  while (!gone.empty()) {
    const std::size_t some = std::min<std::size_t>(gone.size(), at_once_);
    const auto asked = std::chrono::steady_clock::now();
    of_.begin();
    const auto began = std::chrono::steady_clock::now();
    try {
      done = destroy_at_once(in, gone.first(some));
      last_wait_ = std::chrono::duration<double>(began - asked).count();
      last_transaction_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      report_.longest_transaction = std::max(report_.longest_transaction, last_transaction_);
      gone = gone.subspan(some);
    } catch (const error& e) {
      abort();
      if (e.code() != errc::too_big || some == 1) throw;
      at_once_ = (some + 1) / 2;
    } catch (...) {
      abort();
      throw;
    }
  }
  return done;
}

void sweep::abort() {
  if (of_.is_writer()) of_.abort();
  if (quarantined_ != nullptr) quarantined_->aborted();
}

ticket sweep::destroy_at_once(database_state& in, std::span<const address> gone) {
  if (quarantined_ != nullptr) quarantined_->hold(in, gone, quarantine_);
  in.destroyed.insert(gone.begin(), gone.end());
  of_.weak.expect_none_destroyed();
  of_.label = "collect";
  const ticket done = of_.commit();
  if (quarantined_ != nullptr) quarantined_->committed();
  ++report_.transactions;
  return done;
}

void sweep::finish_report() {
  for (const auto& [from, to] :
       {std::pair(&garbage_types_, &report_.types), std::pair(&kept_types_, &report_.kept_types)}) {
    for (auto& [type, sum] : *from) to->push_back(sum);
    std::ranges::stable_sort(*to, std::greater<>(), &type_count::bytes);
  }
}

}  // namespace tenure
