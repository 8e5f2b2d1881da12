// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/object_locks.hpp"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include <tenure/error.hpp>

#include "os/room_for_one.hpp"

namespace tenure::cache {

namespace {

// Calls f(transaction) for each one that keeps this one from the lock.
template <class F>
void for_each_in_the_way(const open_transaction& tx, const cached_object& object, lock_mode mode, F&& f) {
  for (const lock_holder& h : object.leader->locks)
    if (h.who != &tx && (mode == lock_mode::exclusive || h.mode == lock_mode::exclusive)) f(*h.who);
}

}  // namespace

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
    if (next.waits_for == nullptr) continue;
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
  for (const lock_holder& h : object.leader->locks)
    if (h.who == &tx) return h.mode;
  return std::nullopt;
}

bool object_locks::try_acquire(open_transaction& tx, cached_object& object, lock_mode mode) {
  const auto has = lock_of(tx, object);
  if (has && *has >= mode) return true;
  bool is_free = true;
  for_each_in_the_way(tx, object, mode, [&](const open_transaction&) { is_free = false; });
  if (!is_free) return false;
  auto& locks = object.leader->locks;
  if (has) {
    std::ranges::find(locks, &tx, &lock_holder::who)->mode = mode;
    return true;
  }
  os::reserve_one_more(tx.locked);
  locks.push_back({&tx, mode});
  tx.locked.push_back(&object);
  object_table::hold(object);
  return true;
}

void object_locks::acquire(std::unique_lock<std::mutex>& mutex, open_transaction& tx, cached_object& object,
                           lock_mode mode) {
  const auto acquires_now = [&] {
    bool is_first = true;
    for_each_before(tx, object, mode, [&](const open_transaction&) { is_first = false; });
    return is_first && try_acquire(tx, object, mode);
  };
  if (acquires_now()) return;
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
      tx.waits_for = nullptr;
      locks.changed_.notify_all();
    }
  } const until_return(*this, tx, object, mode);
  do {
    if (closes_a_circle(tx)) {
      ++deadlocks_;
      throw error(errc::deadlock,
                  "a deadlock: the transaction wants " + object.text() +
                      ", which another one has, and this one has what that one waits for; abort it, and "
                      "run it again");
    }
    changed_.wait(mutex);
  } while (!acquires_now());
}

void object_locks::release_all(open_transaction& tx) noexcept {
  for (cached_object* const object : tx.locked) {
    std::erase_if(object->leader->locks, [&](const lock_holder& h) { return h.who == &tx; });
    object_table::let_go(*object);
  }
  tx.locked.clear();
  changed_.notify_all();
}

}  // namespace tenure::cache
