// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/object_table.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>

#include <tenure/error.hpp>

#include "cache/words.hpp"
#include "log/invariant.hpp"
#include "os/system_error.hpp"

namespace tenure::cache {

namespace {
// Of objects of which nobody gets a lock any more.
constinit lock_word no_lock{closed_bit};
}  // namespace

cached_object::cached_object(object_table& table, stored_database& of, const stored_database::stored_object& stored,
                             const bound_type& its_type)
    : memory(table.memory()),
      in(of),
      type(its_type),
      home(stored.at),
      size(stored.size),
      bytes(memory.allocate(stored.size, its_type.program->alignment)),
      has_guard(table.first_lock().has_value()) {
  if (!has_guard) return;
  auto* const made = ::new (&guard()) object_guard{};
  made->own.store(*table.first_lock(), std::memory_order_relaxed);
  made->lock.store(&made->own, std::memory_order_release);
}

void cached_object::free_bytes() noexcept {
  if (bytes != nullptr) memory.free(bytes, size, type.program->alignment);
  bytes = nullptr;
}

std::string cached_object::text() const {
  return "the object at " + os::hexadecimal(home) + ", a " + type.program->name;
}

cached_object* object_table::find_at(std::uintptr_t address) const {
  cached_object* found = memory_.find(address);
  if (found == nullptr) {
    const auto behind = large_.upper_bound(address);
    if (behind == large_.begin()) return nullptr;
    found = std::prev(behind)->second;
  }
  return address - found->at() < found->size ? found : nullptr;
}

void object_table::refuse_room(std::uint64_t more, const std::string& what) {
  was_refused_ = true;
  throw error(errc::cache_full,
              what + " needs " + std::to_string(more) + " bytes in the cache, which has " + std::to_string(used_) +
                  " of " + std::to_string(room_) +
                  " in use, for what the transaction has reached and for what is pinned: end or release "
                  "the transaction, let go of pins, or open the store with more object_bytes");
}

void object_table::add(std::list<cached_object>&& loaded) {
  by_home_.reserve(loaded.size());
  auto next = loaded.begin();
  try {
    for (; next != loaded.end(); ++next) {
      next->place = next;
      add(*next);
    }
  } catch (...) {  // [cache.fault.whole]
    while (next != loaded.begin()) {
      --next;
      by_home_.erase(next->home);
      made_.erase(next->home);
      forget_address(*next);
    }
    throw;
  }
  for (const cached_object& object : loaded) used_ += cost_of(object.size);
  objects_.splice(objects_.end(), loaded);
}

// Or not, with an error.
void object_table::add(cached_object& object) {
  if (object.state == object_state::made) made_.emplace(object.home, &object);
  if (memory_.is_small(object.size, object.type.program->alignment)) {
    memory_.set_owner(object.bytes, &object);
  } else {
    try {
      large_.emplace(object.at(), &object);
    } catch (...) {
      made_.erase(object.home);
      throw;
    }
  }
  by_home_.add(object.home, &object);
}

void object_table::forget_address(cached_object& object) noexcept {
  if (memory_.is_small(object.size, object.type.program->alignment))
    memory_.set_owner(object.bytes, nullptr);
  else
    large_.erase(object.at());
}

cached_object* object_table::find_made(std::uint64_t home) const {
  if (made_.empty()) return nullptr;
  const auto behind = made_.upper_bound(home);
  if (behind == made_.begin()) return nullptr;
  cached_object* const before = std::prev(behind)->second;
  return home - before->home < before->size ? before : nullptr;
}

void object_table::stored(cached_object& object) noexcept {
  made_.erase(object.home);
  object.state = object_state::stored;
  object.is_reached = object.is_root = false;
  object.maker = nullptr;
  let_go(object);
}

void object_table::discard_made(cached_object& object) noexcept {
  made_.erase(object.home);
  let_go(object);
  // Nobody has had a lock of it, and nobody has waited for one.
  const bool is_alone = object.leader->members == 1 && !is_held(object) &&
                        (!object.has_guard || object.guard().own.load() == *first_lock_);
  if (!is_alone && object.has_guard && object.leader->members == 1) object.guard().own.fetch_or(closed_bit);
  forget(object);
  if (!is_alone) return;
  used_ -= cost_of(object.size);
  --gone_;
  objects_.erase(object.place);
}

void object_table::remove_destroyed(cached_object& object) noexcept {
  if (object.has_guard) object.guard().lock.store(&no_lock, std::memory_order_release);
  forget(object);
}

bool object_table::is_removed(const object_guard& guard) {
  return guard.lock.load(std::memory_order_acquire) == &no_lock;
}

cached_object& object_table::removed_with(const object_guard& guard) {
  return *std::ranges::find_if(objects_, [&](const cached_object& o) { return &o.guard() == &guard; });
}

// Its group has it still: others may be waiting for a lock of it, and it may be what a transaction knows the group by. So its
// guard stays, too, and the bytes behind it.
void object_table::forget(cached_object& object) noexcept {
  by_home_.erase(object.home);
  forget_address(object);
  object.state = object_state::gone;
  ++gone_;
  if (object.has_guard) return;
  used_ -= object.size;
  object.free_bytes();
  object.size = 0;
}

void object_table::unite(cached_object& one, cached_object& other) noexcept {
  cached_object *into = one.leader, *from = other.leader;
  if (into == from) return;
  if (into->members < from->members) std::swap(into, from);
  into->members += from->members;
  into->holds += from->holds;
  for (const lock_holder& lock : from->locks) {
    const auto known = std::ranges::find(into->locks, lock.who, &lock_holder::who);
    if (known == into->locks.end())
      into->locks.push_back(lock);
    else
      known->mode = std::max(known->mode, lock.mode);
  }
  from->locks.clear();
  // Whoever looks at the old word finds it closed. Bits that are set twice are the same transaction's.
  if (from->has_guard) {
    lock_word& old = from->guard().own;
    into->guard().own.fetch_or(old.exchange((old.load() & store_bits) | closed_bit));
  }
  cached_object* member = from;
  do {
    member->leader = into;
    if (member->has_guard && member->state != object_state::gone)
      member->guard().lock.store(&into->guard().own, std::memory_order_release);
    member = member->next;
  } while (member != from);
  std::swap(into->next, from->next);  // two rings become one
}

// Of groups that stay. Nobody has a lock.
void object_table::mark_gone(std::vector<cached_object*>& leaving) {
  if (gone_ == 0) return;
  const auto may_go = [](const cached_object& o) { return o.state == object_state::gone && o.pins == 0; };
  std::vector<cached_object*> stay;
  stay.reserve(objects_.size());  // so that nothing fails once an object is marked
  for (cached_object& leader : objects_) {
    if (leader.leader != &leader || leader.leaves) continue;
    stay.clear();
    bool has_gone = false;
    cached_object* member = &leader;
    do {
      if (may_go(*member)) {
        member->leaves = has_gone = true;
        --gone_;
        used_ -= cost_of(member->size);
        leaving.push_back(member);
      } else {
        stay.push_back(member);
      }
      member = member->next;
    } while (member != &leader);
    if (!has_gone || stay.empty()) continue;
    cached_object& first = *stay.front();  // the leader, if it stays
    first.holds = leader.holds;
    first.members = stay.size();
    if (first.has_guard) first.guard().own.store(*first_lock_);
    for (std::size_t n = 0; n < stay.size(); ++n) {
      stay[n]->leader = &first;
      stay[n]->next = stay[(n + 1) % stay.size()];
      if (first.has_guard && stay[n]->state != object_state::gone) stay[n]->guard().lock.store(&first.guard().own);
    }
  }
}

void object_table::evict() {
  std::vector<cached_object*> leaving;
  leaving.reserve(objects_.size());  // so that nothing fails once objects are marked
  mark_gone(leaving);
  const std::uint64_t enough = was_refused_ ? 0 : room_ / 2;
  was_refused_ = false;
  std::uint64_t left = used_, evicted = 0;
  for (cached_object& object : objects_) {
    if (left <= enough) break;
    if (object.leaves || is_held(object)) continue;
    cached_object* member = &object;
    do {
      member->leaves = true;
      leaving.push_back(member);
      if (member->state == object_state::gone)
        --gone_;
      else
        ++evicted;
      left -= cost_of(member->size);
      member = member->next;
    } while (member != &object);
  }
  if (leaving.empty()) return;
  unswizzle_to_leaving();
  for (cached_object* const object : leaving) {
    if (object->state == object_state::gone) continue;  // another one may have its home
    by_home_.erase(object->home);
    forget_address(*object);
  }
  objects_.remove_if([](const cached_object& object) { return object.leaves; });
  used_ = left;
  evicted_ += evicted;
  evictions_ += evicted != 0 ? 1 : 0;
}

// [cache.evict.unswizzle]
void object_table::unswizzle_to_leaving() {
  const auto unswizzle = [&](const bound_type& type, std::byte* bytes, std::uint64_t size) {
    for_each_word(type, bytes, size, [&](const pointer_map::word& w, std::size_t, std::byte* at) {
      if (!w.is_checked) return;
      if (!is_address(load_word(at))) return;
      const std::uint64_t word = address_in(load_word(at));
      const cached_object* const target = find_at(word);
      if (target != nullptr && target->leaves) store_word(at, identifier_of(target->home + (word - target->at())));
    });
  };
  for (cached_object& object : objects_) {
    if (object.leaves || !object.type.has_checked || object.state == object_state::gone) continue;
    unswizzle(object.type, object.bytes, object.size);
    object.before.for_each(object.shape(), [&](std::size_t at, std::size_t length) {
      unswizzle(object.type, object.before.bytes(object.shape()) + at, length);
    });
  }
}

void object_table::check() const {
  using rvm::require_invariant;
  std::uint64_t sum = 0;
  for (const cached_object& object : objects_) {
    sum += cost_of(object.size) + object.before.kept_bytes();
    require_invariant((object.state == object_state::gone && !object.has_guard) == (object.bytes == nullptr),
                      "what is gone has no bytes, or those behind its guard");
    require_invariant(
        object.state == object_state::gone || (find(object.home) == &object && find_at(object.at()) == &object),
        "an object is found in both ways");
    require_invariant((object.state == object_state::made) == (find_made(object.home) == &object),
                      "a made object is found by its home");
    require_invariant(object.state != object_state::made || is_held(object), "a made object is held");
    require_invariant(object.before.empty() || is_held(object), "a changed object is held");
    std::uint64_t members = 0;
    const cached_object* member = &object;
    do {
      require_invariant(member->leader == object.leader, "a group has one leader");
      member = member->next;
      ++members;
    } while (member != &object);
    require_invariant(members == object.leader->members, "a group knows how many members it has");
    if (object.state == object_state::gone) continue;
    require_invariant(!object.has_guard || object.guard().lock.load() == &object.lock(), "a group has one lock word");
    for_each_word(object.type, object.bytes, object.size, [&](const pointer_map::word& w, std::size_t, std::byte* at) {
      const std::uint64_t stored = load_word(at);
      if (w.kind != field_kind::reference || !is_address(stored)) return;
      const std::uint64_t word = w.is_checked ? address_in(stored) : stored;
      const cached_object* const target = find_at(word);
      require_invariant(!w.is_checked || is_direct(stored) || (target != nullptr && target->at() == word),
                        "a guarded word leads to the begin of an object");
      // [cache.ref.word], [cache.group]: but for what is being changed or made, which the commit unites
      const bool is_open = !object.before.empty() || object.state == object_state::made;
      require_invariant(target != nullptr || is_open || object.type.program->tolerates_stale || !w.is_checked,
                        "a swizzled reference leads to an object that is in memory");
      require_invariant(target == nullptr || w.is_checked || is_open || target->leader == object.leader,
                        "plain pointers stay within a group");
    });
  }
  require_invariant(sum == used_, "the room that is used is that of the objects");
  require_invariant(by_home_.size() + gone_ == objects_.size(), "an object is known once");
}

}  // namespace tenure::cache
