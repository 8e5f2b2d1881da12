// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where a commit goes: objects whose change was announced are brought into stored form, as they were and as they are; what
// differs goes into one transaction of recoverable memory; the pages in the pool follow. Then others may come in, and a durable
// commit waits for the log.
#include <algorithm>
#include <cstring>

#include <tenure/error.hpp>

#include "cache/commit_changes.hpp"
#include "cache/open_stores.hpp"
#include "cache/store_state.hpp"
#include "cache/stored_form.hpp"
#include "os/room_for_one.hpp"
#include "os/system_error.hpp"
#include "regions/announced_stores.hpp"

namespace tenure::cache {

open_transaction* store_state::begin(bool writes) {
  require_usable();
  memory_->require_usable();
  if (writes && is_read_only_) throw error(errc::read_only, directory_ + ": was opened for reading");
  if (transaction_in(*this) != nullptr)
    throw error(errc::bad_transaction,
                directory_ + ": this thread has a transaction of the store already; end it first");
  const auto made = std::make_shared<open_transaction>(shared_from_this(), keep_open(), writes);
  if (writes && !locks_objects_)
    door_.enter_exclusive();
  else
    door_.enter_shared();
  open_transaction* begun = nullptr;
  try {
    begun = begin_in_thread(made);
  } catch (...) {
    leave(*made);
    throw;
  }
  if (locks_objects_) {
    const std::scoped_lock lock(mutex_);
    locks_.admit(*begun);
  }
  return begun;
}

void store_state::leave(const open_transaction& tx) noexcept {
  if (tx.writes && !locks_objects_)
    door_.leave_exclusive();
  else
    door_.leave_shared();
}

bool store_state::announce(open_transaction& tx, std::uintptr_t address, std::size_t length) {
  std::unique_lock lock(mutex_);
  const rvm::own_stores
      copies;  // of bytes, here and below: if memcpy is announced, it must not come back for the mutex
  cached_object* const object = objects_.find_at(address);
  if (object == nullptr) return false;
  if (!tx.writes) throw error(errc::read_only, object->text() + ", cannot be changed in a transaction that only reads");
  if (length > object->size - (address - object->at()))
    throw error(errc::wrong_type, object->text() + ", has " + std::to_string(object->size) +
                                      " bytes, and a change of " + std::to_string(length) + " at offset " +
                                      std::to_string(address - object->at()) + " was announced");
  if (locks_objects_ && !locks_.acquire(lock, tx, *object, lock_mode::exclusive))
    throw error(errc::bad_transaction, object->text() + ", was destroyed by another transaction");
  if (object->state == object_state::destroyed)
    throw error(errc::bad_transaction, object->text() + ", was destroyed in this transaction");
  if (object->state == object_state::made) return true;
  const auto offset = static_cast<std::size_t>(address - object->at());
  if (const std::uint64_t more = object->before.missing_bytes(object->shape(), offset, length); more != 0) {
    objects_.require_room(more, [&] { return "the value that " + object->text() + ", had before its change,"; });
    keep_value(tx, *object, offset, length);
  }
  return true;
}

// [cache.containers] They do not expect errors of an announcement. So there is always room for the old value, and a lock that
// others have is an error of the commit. Their elements belong to the group of an object that change() has locked as a whole, so
// it is free, unless nothing was announced. (Where there is no memory for an old value, the program ends, as with ranges of
// recoverable memory.)
void store_state::announce_of_container(open_transaction& tx, std::uintptr_t address, std::size_t length) noexcept {
  const std::scoped_lock lock(mutex_);
  const rvm::own_stores copies;
  cached_object* const object = objects_.find_at(address);
  if (object == nullptr) return;
  if (locks_objects_ && !object_locks::try_acquire(tx, *object, lock_mode::exclusive)) {
    tx.written_unlocked = object;
    return;
  }
  if (object->state == object_state::stored)
    keep_value(tx, *object, static_cast<std::size_t>(address - object->at()), length);
}

// [cache.commit.parts]
void store_state::keep_value(open_transaction& tx, cached_object& object, std::size_t offset, std::size_t length) {
  const bool is_first = object.before.empty();
  if (is_first) os::reserve_one_more(tx.changed);
  const std::uint64_t kept = object.before.kept_bytes();
  object.before.keep(object.bytes, object.shape(), offset, length);
  objects_.take_room(object.before.kept_bytes() - kept);
  if (!is_first) return;
  object_table::hold(object);
  tx.changed.push_back(&object);
}

ticket store_state::commit(open_transaction& tx) {
  require_usable();
  ticket done;
  {
    const std::scoped_lock lock(mutex_);
    const rvm::own_stores copies;
    if (tx.written_unlocked != nullptr)
      throw error(errc::bad_transaction, tx.written_unlocked->text() +
                                             ", was written to by a container, with a lock of another transaction on "
                                             "it, and without change(); abort, and announce the change first");
    std::vector<cached_object*> destroyed;
    for (cached_object* const object : tx.changed)
      if (object->state == object_state::destroyed) destroyed.push_back(object);
    commit_changes changes(databases_, objects_);
    changes.gather(tx);
    if (changes.empty()) {
      done = memory_->last_commit();
    } else {
      rvm::transaction log = memory_->begin();
      changes.add_to(log);
      done = log.commit(rvm::commit_mode::no_flush);
      changes.captured(counts_);
    }
    committed(tx, changes, destroyed);
  }
  end(tx);
  return done;
}

// [cache.commit.captured]
void store_state::committed(open_transaction& tx, const commit_changes& changes,
                            std::span<cached_object* const> destroyed) noexcept {
  for (cached_object* const object : changes.stored()) {
    if (object->maker != nullptr) tx.made.remove(*object);
    objects_.stored(*object);
    settle(whole(*object));
  }
  for (const object_part& part : changes.changed()) settle(part);
  // What is left are arrays of containers that are in no stored object.
  for (cached_object* const object : tx.made) object->maker = nullptr;
  tx.made.clear();
  ++counts_.commits;
  forget_changes(tx);
  // Before others can get a lock of them, for which they may not need the mutex.
  for (cached_object* const object : destroyed) objects_.remove_destroyed(*object);
  if (locks_objects_) locks_.release_all(tx, objects_, destroyed);
}

// [cache.abort]
void store_state::abort(open_transaction& tx) noexcept {
  if (is_of_the_parent()) return;
  {
    const std::scoped_lock lock(mutex_);
    const rvm::own_stores copies;
    discard_made(tx);
    for (cached_object* const object : tx.changed) {
      object->before.for_each(object->shape(), [&](std::size_t at, std::size_t length) {
        std::memcpy(object->bytes + at, object->before.bytes(object->shape()) + at, length);
      });
      object->state = object_state::stored;
    }
    ++counts_.aborts;
    forget_changes(tx);
  }
  end(tx);
}

void store_state::settle(const object_part& part) {
  unite_with_targets(part, objects_);
  if (locks_objects_) unswizzle(part, objects_);
}

// And arrays of containers that were moved into objects, as long as these have them. (Where there is no memory to find them, the
// program ends.)
void store_state::discard_made(open_transaction& tx) noexcept {
  commit_changes changes(databases_, objects_);
  changes.reach(tx);
  for (cached_object* const object : changes.stored())
    if (object->maker == nullptr) tx.made.add(*object);
  for (cached_object* const object : tx.made) {
    object->is_reached = false;
    databases_.at(object->home)->free.give_back(object->home, object->size);
    objects_.discard_made(*object);
  }
  tx.made.clear();
  changes.forget();
}

void store_state::forget_changes(open_transaction& tx) noexcept {
  for (cached_object* const object : tx.changed) {
    objects_.give_room(object->before.kept_bytes());
    object->before = {};
    object_table::let_go(*object);
  }
  tx.changed.clear();
}

void store_state::end(open_transaction& tx) noexcept {
  if (is_of_the_parent()) return;
  const std::shared_ptr<store_state> alive = tx.of, kept = std::move(tx.keeps_open);  // until it has left
  if (locks_objects_) {
    object_locks::release_open(tx);
    const std::scoped_lock lock(mutex_);
    locks_.release_all(tx, objects_);
    locks_.left(tx);
  }
  const std::shared_ptr<open_transaction> ended = end_in_thread(tx);
  leave(*ended);
}

void store_state::release(open_transaction& tx) {
  require_usable();
  if (locks_objects_) return;  // what it has reached is locked, and stays
  if (!tx.writes) return door_.rest_shared();
  {  // to what is changed belongs what it has got plain pointers to [cache.group]
    const std::scoped_lock lock(mutex_);
    for (cached_object* const object : tx.changed) unite_with_targets(whole(*object), objects_);
    for (cached_object* const object : tx.made) unite_with_targets(whole(*object), objects_);
  }
  door_.rest_exclusive();
}

void store_state::wait(ticket until) {
  require_usable();
  memory_->wait(until);
}

}  // namespace tenure::cache
