// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/object_locks.hpp"

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tenure/error.hpp>

#include "os/room_for_one.hpp"

namespace tenure::cache {

namespace {

// Of what a lock word says, and who has no bit in it, what keeps a transaction from a lock.
std::uint64_t bits_in_the_way(const open_transaction& tx, std::uint64_t word, lock_mode mode) {
  return mode == lock_mode::exclusive || (word & exclusive_bit) != 0 ? word & all_holders & ~tx.bit : 0;
}
bool is_in_the_way(const open_transaction& tx, const lock_holder& of, lock_mode mode) {
  return of.who != &tx && (mode == lock_mode::exclusive || of.mode == lock_mode::exclusive);
}

// Nobody else finds the array of a container that was made and is in no stored object.
bool is_private(const open_transaction& tx, const cached_object& object) {
  return object.state == object_state::made && !object.is_root && (object.maker == nullptr || object.maker == &tx);
}

}  // namespace

void object_locks::admit(const open_transaction& tx) {
  if (tx.bit != 0) by_bit_[static_cast<std::size_t>(std::countr_zero(tx.bit))] = &tx;
}
void object_locks::left(const open_transaction& tx) noexcept {
  if (tx.bit != 0) by_bit_[static_cast<std::size_t>(std::countr_zero(tx.bit))] = nullptr;
}

// Calls f(transaction) for each one that keeps this one from the lock.
template <class F>
void object_locks::for_each_in_the_way(const open_transaction& tx, const cached_object& object, lock_mode mode,
                                       F&& f) const {
  for (std::uint64_t bits = bits_in_the_way(tx, object.lock().load(), mode); bits != 0; bits &= bits - 1)
    f(*by_bit_[static_cast<std::size_t>(std::countr_zero(bits))]);
  for (const lock_holder& h : object.leader->locks)
    if (is_in_the_way(tx, h, mode)) f(*h.who);
}

// Calls f(transaction) for each one that has waited for an exclusive lock for longer than this one for a shared one. Otherwise
// readers that come and go would keep writers out for ever [cache.locks.turn]. Who has a lock of the group already is let
// through: those who wait wait for it.
template <class F>
void object_locks::for_each_before(const open_transaction& tx, const cached_object& object, lock_mode mode,
                                   F&& f) const {
  if (mode == lock_mode::exclusive || lock_of(tx, object)) return;
  for (const open_transaction* const other : waiting_) {
    if (other == &tx) return;
    if (other->wants == lock_mode::exclusive && other->waits_for->leader == object.leader) f(*other);
  }
}

// Whether it would wait for itself.
bool object_locks::closes_a_circle(const open_transaction& tx) const {
  std::vector<const open_transaction*> to_follow{&tx};
  std::unordered_set<const open_transaction*> seen;
  while (!to_follow.empty()) {
    const open_transaction& next = *to_follow.back();
    to_follow.pop_back();
    if (next.waits_for == nullptr || next.waits_for->state == object_state::gone) continue;
    bool is_circle = false;
    const auto follow = [&](const open_transaction& other) {
      is_circle = is_circle || &other == &tx;
      if (seen.insert(&other).second) to_follow.push_back(&other);
    };
    for_each_in_the_way(next, *next.waits_for, next.wants, follow);
    for_each_before(next, *next.waits_for, next.wants, follow);
    if (is_circle) return true;
  }
  return false;
}

std::optional<lock_mode> object_locks::lock_of(const open_transaction& tx, const cached_object& object) {
  if (tx.bit != 0) {
    const std::uint64_t word = object.lock().load();
    if ((word & tx.bit) == 0) return std::nullopt;
    return (word & exclusive_bit) != 0 ? lock_mode::exclusive : lock_mode::shared;
  }
  for (const lock_holder& h : object.leader->locks)
    if (h.who == &tx) return h.mode;
  return std::nullopt;
}

bool object_locks::lock_shared(open_transaction& tx, object_guard& guard) {
  if (tx.bit == 0) return false;
  lock_word& word = *guard.lock.load(std::memory_order_acquire);
  std::uint64_t now = word.load(std::memory_order_relaxed);
  if ((now & store_bits) != tx.store) return false;
  os::reserve_one_more(tx.locked);
  do
    if ((now & (exclusive_bit | closed_bit)) != 0) return false;
  while (!word.compare_exchange_weak(now, now | tx.bit, std::memory_order_acq_rel, std::memory_order_relaxed));
  tx.locked.push_back(&guard);
  if (!object_table::is_removed(guard)) return true;
  // It was destroyed between the two looks at its guard, and this is a lock of what is left of its group.
  tx.has_locked_what_is_gone = true;
  return false;
}

void object_locks::make_room(open_transaction& tx, cached_object& object) {
  if (tx.bit != 0) return os::reserve_one_more(tx.locked);
  os::reserve_one_more(object.locks);
  os::reserve_one_more(tx.locked_without_bit);
}

bool object_locks::try_acquire(open_transaction& tx, cached_object& object, lock_mode mode) {
  if (is_private(tx, object)) return true;
  auto& locks = object.leader->locks;
  for (const lock_holder& h : locks)
    if (is_in_the_way(tx, h, mode)) return false;
  lock_word& word = object.lock();
  std::uint64_t now = word.load();
  if (tx.bit == 0) {
    if (const auto has = std::ranges::find(locks, &tx, &lock_holder::who); has != locks.end()) {
      if (has->mode < mode && bits_in_the_way(tx, now, mode) != 0) return false;
      has->mode = std::max(has->mode, mode);
      return true;
    }
    os::reserve_one_more(locks);
    os::reserve_one_more(tx.locked_without_bit);
    now = word.fetch_or(closed_bit);  // before it is known who has it: nobody comes any more
    if (bits_in_the_way(tx, now, mode) != 0) {
      if ((now & closed_bit) == 0) word.fetch_and(~closed_bit);
      return false;
    }
    locks.push_back({&tx, mode});
    tx.locked_without_bit.push_back(&object);
    return true;
  }
  os::reserve_one_more(tx.locked);
  const std::uint64_t wanted = tx.bit | (mode == lock_mode::exclusive ? exclusive_bit : 0);
  do {
    if ((now & wanted) == wanted) return true;
    if (bits_in_the_way(tx, now, mode) != 0) return false;
  } while (!word.compare_exchange_weak(now, now | wanted));
  if ((now & tx.bit) == 0) tx.locked.push_back(&object.guard());
  return true;
}

// If nobody waits for a lock of the group, and nobody has one without a bit.
void object_locks::open_again(const cached_object& object) noexcept {
  const cached_object& leader = *object.leader;
  if (!leader.locks.empty() || (leader.members == 1 && leader.state == object_state::gone)) return;
  for (const open_transaction* const other : waiting_)
    if (other->waits_for->leader == &leader) return;
  object.lock().fetch_and(~closed_bit);
}

bool object_locks::acquire(std::unique_lock<std::mutex>& mutex, open_transaction& tx, cached_object& object,
                           lock_mode mode) {
  const auto acquires_now = [&] {
    bool is_first = true;
    for_each_before(tx, object, mode, [&](const open_transaction&) { is_first = false; });
    return is_first && try_acquire(tx, object, mode);
  };
  const auto is_gone = [&] { return object.state == object_state::gone; };
  if (is_gone()) return false;
  if (acquires_now()) return true;
  ++waits_;
  struct waiting {
    object_locks& locks;
    open_transaction& tx;
    waiting(object_locks& in, open_transaction& who, const cached_object& what, lock_mode mode) : locks(in), tx(who) {
      os::reserve_one_more(locks.waiting_);
      tx.wants = mode;
      tx.waits_for = &what;
      locks.waiting_.push_back(&tx);
    }
    ~waiting() {  // others may have waited only for it
      std::erase(locks.waiting_, &tx);
      locks.open_again(*std::exchange(tx.waits_for, nullptr));
      locks.changed_.notify_all();
    }
  } const until_return(*this, tx, object, mode);
  object.lock().fetch_or(closed_bit);
  // Nobody comes any more but with the mutex; who has gone meanwhile has told nobody.
  while (!is_gone() && !acquires_now()) {
    if (closes_a_circle(tx)) {
      ++deadlocks_;
      throw error(errc::deadlock,
                  "a deadlock: the transaction wants " + object.text() +
                      ", which another one has, and this one has what that one waits for; abort it, and "
                      "run it again");
    }
    changed_.wait(mutex);
  }
  return !is_gone();
}

// If the lock is exclusive, it is this transaction's.
void object_locks::release_open(open_transaction& tx) noexcept {
  std::erase_if(tx.locked, [&](const object_guard* guard) {
    lock_word& word = *guard->lock.load(std::memory_order_acquire);
    std::uint64_t now = word.load(std::memory_order_relaxed);
    do
      if ((now & closed_bit) != 0) return false;
    while ((now & tx.bit) != 0 &&
           !word.compare_exchange_weak(now, now & ~(tx.bit | exclusive_bit), std::memory_order_acq_rel));
    return true;
  });
}

void object_locks::release_all(open_transaction& tx, object_table& objects,
                               std::span<cached_object* const> removed) noexcept {
  bool somebody_waits = false;
  const auto release = [&](lock_word& word) {
    if ((word.load() & tx.bit) == 0) return;  // its group was united with one of which it has let go
    somebody_waits = (word.fetch_and(~(tx.bit | exclusive_bit)) & closed_bit) != 0 || somebody_waits;
  };
  for (const object_guard* const guard : tx.locked)
    if (tx.has_locked_what_is_gone && object_table::is_removed(*guard))
      release(objects.removed_with(*guard).lock());
    else
      release(*guard->lock.load());
  for (const cached_object* const object : removed) release(object->lock());
  tx.locked.clear();
  tx.has_locked_what_is_gone = false;
  for (cached_object* const object : tx.locked_without_bit) {
    std::erase_if(object->leader->locks, [&](const lock_holder& h) { return h.who == &tx; });
    open_again(*object);
    somebody_waits = true;
  }
  tx.locked_without_bit.clear();
  if (somebody_waits) changed_.notify_all();
}

}  // namespace tenure::cache
