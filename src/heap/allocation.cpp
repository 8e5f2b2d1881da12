// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What make(), destroy() and containers ask of the heap.
#include <cstring>

#include <tenure/error.hpp>

#include "heap/object_text.hpp"
#include "heap/store_state.hpp"
#include "os/system_error.hpp"

namespace tenure::detail {

using namespace heap;

void* make_object(database_state& in, const type& of, std::uint64_t bytes) {
  in.owner.require_writable();
  return reinterpret_cast<void*>(in.make(of, bytes));
}

void constructed(database_state& in, const type& of, void* object) noexcept {
  const known_type& known = in.types->at(header_of(reinterpret_cast<address>(object)).type);
  in.types->canonicalize(known, static_cast<std::byte*>(object), of.size);
}

void unmake_object(database_state& in, void* object) noexcept { in.nursery->unmake(reinterpret_cast<address>(object)); }

void* require_object(store_state& in, const void* object, const type& of) {
  in.require_transaction("destroy an object");
  const database_state* const d = in.database_of(object);
  const found_object found = d != nullptr ? d->map->find(reinterpret_cast<address>(object)) : found_object{};
  if (!found)
    throw error(errc::bad_free, "cannot destroy " + os::hexadecimal(object) + ": " + describe_address(object) +
                                    "it is no object of " + in.directory);
  if (d->destroyed.contains(found.at) || d->retired.contains(found.at))
    throw error(errc::bad_free, object_text(in, found.at) + " has been destroyed already in this transaction");
  const known_type& is = d->types->at(header_of(found.at).type);
  if (found.at == reinterpret_cast<address>(object) && is.of->name != of.name && is.of->size < of.size)
    throw error(errc::bad_free, "cannot destroy " + object_text(in, found.at) + " as a " + of.name);
  return reinterpret_cast<void*>(found.at);
}

void retire_object(store_state& in, void* object) noexcept {
  database_state* const d = in.database_of(object);
  if (d == nullptr) return;
  const found_object found = d->map->find_start(reinterpret_cast<address>(object));
  if (!found) return;
  // A persistent object can be let go in a write transaction only; elsewhere it stays, and is found unreachable some day.
  if (in.is_writer())
    (found.is_persistent ? d->destroyed : d->retired).insert(found.at);
  else if (!found.is_persistent)
    d->nursery->unmake(found.at);
}

void* allocate(const type& of, std::size_t count, const void* near) {
  store_state* store = store_at(near);
  database_state* in = nullptr;
  if (store != nullptr)
    in = store->database_of(near);
  else
    store = current_store();
  if (store == nullptr || (in == nullptr && store->closed))
    throw error(errc::closed, "a container needs memory, but no store is open in this process");
  if (in == nullptr) in = store->databases.front().get();
  store->require_writable();
  if (of.size != 0 && count > SIZE_MAX / of.size)
    throw error(errc::out_of_memory, "an array of " + std::to_string(count) + " x " + of.name + " is too large");
  return reinterpret_cast<void*>(in->make(of, count * of.size));
}

void deallocate(void* array) noexcept {
  if (store_state* const store = store_at(array); store != nullptr) retire_object(*store, array);
}

}  // namespace tenure::detail
