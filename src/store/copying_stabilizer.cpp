// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/copying_stabilizer.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include <tenure/error.hpp>

#include "collection/handles.hpp"
#include "collection/unlogged_references.hpp"
#include "os/own_stack.hpp"
#include "os/sanitizers.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

namespace {

// A sanitizer's redzones on the stack are words like others here.
template <class F>
TENURE_UNSANITIZED void for_each_word(os::memory_stretch in, F&& f) {
  for (const auto *word = reinterpret_cast<const address*>(in.begin), *end = reinterpret_cast<const address*>(in.end);
       word < end; ++word)
    f(*word);
}

}  // namespace

copying_stabilizer::copying_stabilizer(store_state& of) : of_(of) {}

// --- Finding ------------------------------------------------------------------------------------------------------------

bool copying_stabilizer::find(const rvm::transaction& tx) {
  of_.databases->with_births_locked([&] {
    visit_all(tx);
    if (!order_.empty()) pin_what_the_program_has();
  });
  choose();
  return !moved_.all().empty();
}

// Another thread may have ended an object to which only a stray word leads.
found_object copying_stabilizer::find_again(const visited& which) {
  const found_object there = which.in->map->find_start(which.object);
  return there && !there.is_persistent ? there : found_object{};
}

void copying_stabilizer::visit_object(address at, bool pins) {
  database_state* const in = of_.databases->at(reinterpret_cast<const void*>(at));
  const found_object there = in != nullptr ? in->map->find(at) : found_object{};
  if (!there || there.is_persistent || in->map->was_moved(there)) return;
  if (pins) pinned_.insert(there.at);
  if (!seen_.insert(there.at).second) return;
  order_.push_back({in, there.at});
  blocks_.insert(there.at / block_size);
}

void copying_stabilizer::visit(database_state& from, const known_type& type, std::uint64_t to, bool may_be_end) {
  const bool pinning = may_be_end || of_.pinning.pins_targets(from, type);
  visit_object(to, pinning);
  if (may_be_end) visit_object(to - 1, true);
}

// What refers to a new object was written to by this transaction, or is new itself.
void copying_stabilizer::visit_all(const rvm::transaction& tx) {
  tx.for_each_written_page([&](const rvm::memory_range& page) {
    database_state* const in = of_.databases->at(page.address);
    const auto from = reinterpret_cast<address>(page.address), to = from + page.length;
    if (in == nullptr || from < in->home + zone_kinds_at) return;
    pages_.push_back(page);
    in->map->for_each_persistent_in(from, to, [&](address object) {
      if (in->destroyed.contains(object)) return;
      const object_facts facts = in->map->facts(object);
      const known_type& type = in->types->at(facts.type);
      for_each_reference(type, reinterpret_cast<const std::byte*>(object), facts.size, std::max(from, object) - object,
                         std::min(to - object, facts.size),
                         [&](const reference_field& r) { visit(*in, type, static_cast<address>(r.to), r.may_be_end); });
    });
  });
  for (std::size_t n = 0; n < order_.size(); ++n) {
    database_state& in = *order_[n].in;
    const object_facts facts = in.map->facts(in.map->find(order_[n].object));
    const known_type& type = in.types->at(facts.type);
    for_each_reference(type, facts,
                       [&](const reference_field& r) { visit(in, type, static_cast<address>(r.to), r.may_be_end); });
  }
}

// Most of what the program has is not new. A large object, which may have more blocks than this one, is never copied.
void copying_stabilizer::pin(address at) {
  for (const address each : {at, at - 1}) {
    if (!blocks_.contains(each / block_size)) continue;
    database_state* const in = of_.databases->at(reinterpret_cast<const void*>(each));
    const found_object there = in != nullptr ? in->map->find(each) : found_object{};
    if (there && !there.is_persistent) pinned_.insert(there.at);
  }
}

void copying_stabilizer::pin_what_the_program_has() {
  {
    const std::scoped_lock lock(detail::handles::mutex());
    detail::handles::for_each([&](const void* to) { pin(reinterpret_cast<address>(to)); });
  }
  os::with_own_stack([&](os::memory_stretch stack) { for_each_word(stack, [&](address word) { pin(word); }); });
  const auto pin_target = [&](address to, bool) { pin(to); };
  for (const auto& d : *of_.databases) {
    d->birth->for_each_transient_block([&](const transient_block& y) {
      y.not_moved().for_each([&](std::uint64_t g) {
        const address object = object_of_bit(d->map->start_of(y.first), y.pages, g);
        if (d->retired.contains(object)) return;
        for_each_unlogged_reference(*d, d->map->transient_facts(y, object), !seen_.contains(object), pin_target);
      });
    });
    if (!for_each_with_transient_fields(*d, d->region.size(), [&](const object_facts& object) {
          for_each_unlogged_reference(*d, object, false, pin_target);
        }))
      throw error(errc::not_stopped, of_.directory +
                                         ": nothing can be copied: the kernel does not tell in "
                                         "/proc/thread-self/maps and pagemap which memory the program has");
  }
}

void copying_stabilizer::choose() {
  for (const visited& v : order_) {
    object_facts facts{};
    of_.databases->with_births_locked([&] {
      if (const found_object there = find_again(v)) facts = v.in->map->facts(there);
    });
    if (facts.at == 0) continue;
    const known_type& type = v.in->types->at(facts.type);
    if (facts.size >= block_size / 2 || never_moves(type) || pinned_.contains(v.object) ||
        v.in->retired.contains(v.object) || of_.weak.leads_to(v.object))
      continue;
    moved_.add(*v.in, type, v.object, facts.size);
  }
}

// --- Copying ------------------------------------------------------------------------------------------------------------

bool copying_stabilizer::copy() {
  try {
    moved_.copy();
  } catch (const std::bad_alloc&) {
    retire_copies();
    return false;
  } catch (const error& e) {
    const bool lacks_room =
        e.code() == errc::out_of_memory || e.code() == errc::segment_full || e.code() == std::errc::no_space_on_device;
    if (!lacks_room) throw;
    retire_copies();
    return false;
  }
  of_.databases->with_births_locked([&] {
    for (const moved_objects::move& m : moved_.all())
      moved_.rewrite(*m.type, m.to, m.size, 0, m.size, moved_objects::bytes_of::copy);
    for (const visited& v : order_) {
      const found_object there = find_again(v);
      if (!there || moved_.contains(v.object)) continue;
      const object_facts facts = v.in->map->facts(there);
      moved_.rewrite(v.in->types->at(facts.type), v.object, facts.size, 0, facts.size,
                     moved_objects::bytes_of::new_object);
    }
    for (const rvm::memory_range& page : pages_) {
      const auto from = reinterpret_cast<address>(page.address);
      moved_.rewrite_stored(*of_.databases->at(page.address), from, from + page.length);
    }
  });
  for (const moved_objects::move& m : moved_.all()) m.in->retired.insert(m.from);
  return true;
}

void copying_stabilizer::traced() {
  if (of_.how.collection.quarantine != quarantine::none) keep_old_ones();
}

void copying_stabilizer::keep_old_ones() noexcept {
  for (const moved_objects::move& m : moved_.all()) m.in->retired.erase(m.from);
}

void copying_stabilizer::failed() noexcept {
  moved_.put_back();
  keep_old_ones();
  retire_copies();
}

void copying_stabilizer::retire_copies() noexcept {
  try {
    for (const moved_objects::move& m : moved_.all())
      if (m.to != 0) m.in->retired.insert(m.to);
  } catch (const std::bad_alloc&) {
    // The next collection finds the others.
  }
}

void copying_stabilizer::committed() {
  if (of_.how.collection.quarantine == quarantine::check)
    for (const moved_objects::move& m : moved_.all())
      std::memset(reinterpret_cast<void*>(m.from), quarantined_objects::pattern, m.size);
  if (of_.how.collection.quarantine != quarantine::none)
    of_.databases->with_births_locked([&] {
      for (const moved_objects::move& m : moved_.all()) {
        transient_block& y = *m.in->map->find_start(m.from).within;
        y.moved.set((m.from - m.in->map->start_of(y.first)) / granule);
      }
    });
  const std::scoped_lock lock(of_.statistics_mutex);
  of_.counts.objects_copied += moved_.all().size();
  for (const moved_objects::move& m : moved_.all()) of_.counts.bytes_copied += m.size;
  of_.counts.objects_pinned += order_.size() - moved_.all().size();
}

}  // namespace tenure
