// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that are made and destroyed in a cache, and the memory of containers. A made object has its home address from the begin;
// the commit stores it there [cache.making].
#include <algorithm>
#include <cassert>
#include <cstring>
#include <list>

#include <tenure/error.hpp>

#include "cache/open_stores.hpp"
#include "cache/store_state.hpp"
#include "cache/words.hpp"
#include "objects/database_state.hpp"
#include "os/system_error.hpp"
#include "regions/announced_stores.hpp"

namespace tenure::cache {

void* store_state::make(open_transaction* tx, open_database& in, const type& of, std::uint64_t size, bool is_root) {
  const std::uint32_t index = in.types.index_of(of);
  const bound_type& type = in.types.bind(index, &of);
  objects_.require_room(object_table::cost_of(size), [&] { return "a new " + of.name; });
  const heap::new_object what = heap::described_object(index, of, type.words, size);
  std::list<cached_object> made;
  const std::uint64_t home = in.free.take(what);
  try {
    made.emplace_back(objects_, in.stored, stored_database::stored_object{home, index, size}, type);
    cached_object& object = made.back();
    object.state = object_state::made;
    object.maker = tx;
    object.is_root = is_root;
    std::memset(object.bytes, 0, static_cast<std::size_t>(size));
    const bool has_lock = is_root && locks_objects_;
    if (tx != nullptr) tx->made.reserve_one_more();
    if (has_lock) object_locks::make_room(*tx, object);
    objects_.add(std::move(made));  // from here on nothing fails
    object_table::hold(object);
    if (tx != nullptr) tx->made.add(object);
    if (has_lock) (void)object_locks::try_acquire(*tx, object, lock_mode::exclusive);  // nobody has one
    return object.bytes;
  } catch (...) {
    in.free.give_back(home, size);
    throw;
  }
}

void* store_state::make_object(open_transaction& tx, std::string_view name, const type& of) {
  require_usable();
  const std::scoped_lock lock(mutex_);
  const rvm::own_stores zeros;
  if (!tx.writes)
    throw error(errc::read_only, directory_ + ": an object cannot be made in a transaction that only reads");
  return make(&tx, database(name), of, of.size, true);
}

// Near what is in memory: with it. Otherwise in the default database, until the container's own memory ends.
void* store_state::make_array(open_transaction* tx, const type& of, std::size_t count, std::uintptr_t near) {
  const std::scoped_lock lock(mutex_);
  require_usable();  // whoever calls need not keep the store open
  const rvm::own_stores zeros;
  if (of.size != 0 && count > SIZE_MAX / 2 / of.size)
    throw error(errc::out_of_memory, "an array of " + std::to_string(count) + " x " + of.name + " is too large");
  const cached_object* const owner = objects_.find_at(near);
  // What is in no stored object keeps what it has when the transaction aborts.
  const bool belongs = owner != nullptr && (owner->state != object_state::made || owner->maker != nullptr);
  if (belongs && (tx == nullptr || !tx->writes))
    throw error(errc::read_only, owner->text() +
                                     ", has a container that needs memory, and the thread has no transaction "
                                     "that changes the store");
  open_database& in = owner != nullptr ? *databases_.at(owner->home) : **databases_.begin();
  return make(belongs ? tx : nullptr, in, of, std::max<std::uint64_t>(count * of.size, 1), false);
}

std::uint64_t store_state::word_of(std::uintptr_t address) const {
  if (!locks_objects_) return address;
  const std::scoped_lock lock(mutex_);
  const cached_object* const object = objects_.find_at(address);
  if (object == nullptr) return address;
  return address == object->at() ? guarded(address) : identifier_of(object->home + (address - object->at()));
}

void store_state::require_destroyable(open_transaction& tx, std::uintptr_t address, const type& of,
                                      const std::type_info* dynamic) {
  {
    const std::scoped_lock lock(mutex_);
    const cached_object* const object = objects_.find_at(address);
    const auto refuse = [&](const std::string& why) {
      throw error(errc::bad_free, directory_ + ": cannot destroy " + os::hexadecimal(address) + ": " + why);
    };
    if (object == nullptr) refuse("it is no object of the store");
    if (object_locks::has_destroyed(tx, *object))
      refuse(object->text() + ", has been destroyed already in this transaction");
    if (const auto set = tx.roots.find(databases_.at(object->home)); set != tx.roots.end())
      for (const auto& [name, root] : set->second)
        if (root == object->home)
          refuse(object->text() + ", was made the root \"" + name +
                 "\" in this transaction; set that to another first");
    if (object->at() != address) refuse("it lies inside " + object->text() + ", and is no object of its own");
    const type& is = *object->type.program;
    if (object->size != is.size || is.tolerates_stale || (object->state == object_state::made && !object->is_root))
      refuse("it is the first element of an array, " + object->text() +
             ", which belongs to a container: erase it there");
    const bool has_type = dynamic != nullptr ? is.operations != nullptr && is.operations->info != nullptr &&
                                                   *is.operations->info == *dynamic
                                             : is.name == of.name;
    if (!has_type) refuse("a " + of.name + " lies at the start of " + object->text() + ", and is no object of its own");
    const stored_types& types = databases_.at(object->home)->types;
    if (types.knows("tenure::detail::weak_cell") || types.knows("tenure::detail::finalization_entry"))
      refuse(
          "the database has weak references or finalization queues, and only tenure::store knows whether one of them "
          "leads to " +
          object->text());
  }
  if (!announce(tx, address, of.size))
    throw error(errc::bad_free, directory_ + ": cannot destroy " + os::hexadecimal(address) +
                                    ": another transaction has destroyed it meanwhile");
}

void store_state::destroy(std::uintptr_t address) noexcept {
  const std::scoped_lock lock(mutex_);
  cached_object* const object = objects_.find_at(address);
  assert(object != nullptr);
  end_object(*object);
}

bool store_state::destroy_array(open_transaction* tx, std::uintptr_t address) noexcept {
  const std::scoped_lock lock(mutex_);
  const rvm::own_stores copies;
  cached_object* const object = objects_.find_at(address);
  if (object == nullptr) return false;
  if (object->state == object_state::made) {
    end_object(*object);
    return true;
  }
  if (tx == nullptr || !tx->writes || object->state != object_state::stored) return true;
  if (locks_objects_ && !object_locks::try_acquire(*tx, *object, lock_mode::exclusive)) {
    tx->written_unlocked = object;
    return true;
  }
  keep_value(*tx, *object, 0, static_cast<std::size_t>(object->size));
  end_object(*object);
  return true;
}

void store_state::end_object(cached_object& object) noexcept {
  if (object.state == object_state::stored) {
    object.state = object_state::destroyed;
    return;
  }
  if (object.maker != nullptr)
    object.maker->made.remove(object);  // another thread's, if that has moved the container here
  databases_.at(object.home)->free.give_back(object.home, object.size);
  objects_.discard_made(object);
}

}  // namespace tenure::cache
