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

// Whether it would wait for itself.
bool closes_a_circle(const open_transaction& tx) {
  std::vector<const open_transaction*> to_follow{&tx};
  std::unordered_set<const open_transaction*> seen;
  while (!to_follow.empty()) {
    const open_transaction& next = *to_follow.back();
    to_follow.pop_back();
    if (next.waits_for == nullptr) continue;
    bool is_circle = false;
    for_each_in_the_way(next, *next.waits_for, next.wants, [&](const open_transaction& other) {
      is_circle = is_circle || &other == &tx;
      if (seen.insert(&other).second) to_follow.push_back(&other);
    });
    if (is_circle) return true;
  }
  return false;
}

}  // namespace

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
  if (try_acquire(tx, object, mode)) return;
  ++waits_;
  struct waiting {
    open_transaction& tx;
    ~waiting() { tx.waits_for = nullptr; }
  } const until_return{tx};
  tx.wants = mode;
  do {
    tx.waits_for = &object;
    if (closes_a_circle(tx)) {
      ++deadlocks_;
      throw error(errc::deadlock,
                  "a deadlock: the transaction wants " + object.text() +
                      ", which another one has, and this one has what that one waits for; abort it, and "
                      "run it again");
    }
    changed_.wait(mutex);
  } while (!try_acquire(tx, object, mode));
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
