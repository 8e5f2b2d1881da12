// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/sweep.hpp"

#include <algorithm>

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

void sweep::look_at(const database_state& in, std::uint64_t block, std::vector<address>& garbage) {
  std::uint64_t objects = 0, granules = 0;
  in.map->for_each_persistent(block, block + 1, [&](address at) {
    const sound_object object = sound_at(in, at);
    if (!object) refuse(in, block);
    const object_facts facts = in.map->facts(at);
    const std::uint64_t bytes = facts.end - facts.begin;
    ++objects;
    granules += granules_of(facts.size);
    if (is_kept_(in, at)) {
      ++report_.kept;
      report_.kept_bytes += bytes;
      return;
    }
    garbage.push_back(at);
    ++report_.garbage;
    report_.garbage_bytes += bytes;
    type_count& sum = types_[object.type->of->name];
    if (sum.objects == 0) sum.type = object.type->of->name;
    ++sum.objects;
    sum.bytes += bytes;
  });
  if (objects == 0) return;
  const block_entry& entry = in.map->entry(block);
  if ((entry.kind == block_kind::small && granules != entry.used) ||
      (entry.kind == block_kind::typed && objects != entry.used))
    refuse(in, block);
}

std::optional<ticket> sweep::destroy_some(database_state& in, std::uint64_t& block, std::uint64_t at_once) {
  std::optional<ticket> done;
  std::vector<address> gone;
  of_.begin();
  try {
    // Looking costs, too.
    constexpr std::uint64_t most_blocks = 64;
    const std::uint64_t end = std::min(in.header().blocks_end, block + most_blocks);
    for (; block < end && gone.size() < at_once; ++block) look_at(in, block, gone);
    if (gone.empty())
      of_.abort();
    else
      done = destroy_at_once(in, gone);
  } catch (const error& e) {
    if (of_.is_writer()) of_.abort();
    if (e.code() != errc::too_big) throw;
    done = destroy(in, gone);
  } catch (...) {
    if (of_.is_writer()) of_.abort();
    throw;
  }
  return done;
}

// In fewer at a time if the log is too small for so many: it may be one that cannot grow.
ticket sweep::destroy(database_state& in, std::span<const address> gone) {
  ticket done;
  while (!gone.empty()) {
    const std::size_t some = std::min<std::size_t>(gone.size(), at_once_);
    of_.begin();
    try {
      done = destroy_at_once(in, gone.first(some));
      gone = gone.subspan(some);
    } catch (const error& e) {
      if (of_.is_writer()) of_.abort();
      if (e.code() != errc::too_big || some == 1) throw;
      at_once_ = (some + 1) / 2;
    } catch (...) {
      if (of_.is_writer()) of_.abort();
      throw;
    }
  }
  return done;
}

ticket sweep::destroy_at_once(database_state& in, std::span<const address> gone) {
  in.destroyed.insert(gone.begin(), gone.end());
  of_.label = "collect";
  const ticket done = *of_.commit();
  ++report_.transactions;
  return done;
}

void sweep::finish_report() {
  for (auto& [type, sum] : types_) report_.types.push_back(sum);
  std::ranges::stable_sort(report_.types, std::greater<>(), &type_count::bytes);
}

}  // namespace tenure
