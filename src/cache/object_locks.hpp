// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Locks of objects, shared or exclusive, for several transactions at once (options::concurrency). A lock is on a group of
// objects, because who has one of them follows plain pointers to the others without asking. Locks are kept until the
// transaction has ended: strict two-phase locking [cache.locks.two-phase].
//
// A transaction that would wait in a circle gets errc::deadlock instead. Who waits for whom is not stored: it follows from what
// each transaction waits for, and from who has that. It is looked at whenever a transaction begins to wait, and when locks have
// changed meanwhile, so the last one to close a circle finds it [cache.locks.deadlock].
//
// Who has a lock is said by the lock word of the group, in which each transaction has its thread's bit (lock_words.hpp). A first
// shared lock is one atomic operation on it, and the next ones are none, without the store's mutex [cache.locks.word]. All else
// is guarded by the store's mutex. While somebody waits, the word is closed: whoever wants a lock of the group, or lets go of one,
// comes here. Threads beyond the number of bits are on a list of the group, whose word then is closed, too.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cache/object_table.hpp"

namespace tenure::cache {

class object_locks {
 public:
  // A transaction begins; it has its bit.
  void admit(const open_transaction& tx);
  // It has let go of its locks.
  void left(const open_transaction& tx) noexcept;

  // Waits until the transaction has the lock, and for writers that have waited longer. Throws errc::deadlock. False: another
  // transaction has destroyed the object meanwhile, and there is no lock of it.
  [[nodiscard]] bool acquire(std::unique_lock<std::mutex>& mutex, open_transaction& tx, cached_object& object,
                             lock_mode mode);
  // The same without waiting for anybody: whether it has the lock now.
  [[nodiscard]] static bool try_acquire(open_transaction& tx, cached_object& object, lock_mode mode);
  // So that try_acquire() of a new object throws nothing.
  static void make_room(open_transaction& tx, cached_object& object);
  // The lock that it has; nullopt: none.
  [[nodiscard]] static std::optional<lock_mode> lock_of(const open_transaction& tx, const cached_object& object);
  // Whether the transaction has destroyed the object; and no other one, which would have the lock.
  [[nodiscard]] static bool has_destroyed(const open_transaction& tx, const cached_object& object) {
    return object.state == object_state::destroyed &&
           (!object.has_guard || lock_of(tx, object) == lock_mode::exclusive);
  }
  // The same as in lock_shared(), of an object with this guard: without the mutex.
  [[nodiscard]] static bool lock_shared(open_transaction& tx, object_guard& guard);
  // `removed`: objects that its commit has removed from the table.
  void release_all(open_transaction& tx, object_table& objects, std::span<cached_object* const> removed = {}) noexcept;
  // Of words that are open: without the mutex. release_all must follow.
  static void release_open(open_transaction& tx) noexcept;
  // Groups were united, and may have got locks of others.
  void united() noexcept { changed_.notify_all(); }

  [[nodiscard]] std::uint64_t waits() const { return waits_; }
  [[nodiscard]] std::uint64_t deadlocks() const { return deadlocks_; }

 private:
  template <class F>
  void for_each_in_the_way(const open_transaction& tx, const cached_object& object, lock_mode mode, F&& f) const;
  template <class F>
  void for_each_before(const open_transaction& tx, const cached_object& object, lock_mode mode, F&& f) const;
  [[nodiscard]] bool closes_a_circle(const open_transaction& tx) const;
  void open_again(const cached_object& object) noexcept;

  std::array<const open_transaction*, holder_bits> by_bit_{};
  std::condition_variable changed_;
  std::vector<const open_transaction*> waiting_;  // who came first comes first
  std::uint64_t waits_ = 0, deadlocks_ = 0;
};

}  // namespace tenure::cache
