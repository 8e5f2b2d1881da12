// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What make(), destroy() and containers need from the heap.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>

#include <tenure/barriers.hpp>
#include <tenure/error.hpp>
#include <tenure/types/detail/classes.hpp>

#include "objects/object_text.hpp"
#include "os/system_error.hpp"
#include "rewrite/conversion_memory.hpp"
#include "store/store_state.hpp"
#include "types/container_memory.hpp"

namespace tenure::detail {

using namespace heap;

void* make_object(database_state& in, const type& of, std::uint64_t bytes) {
  store_state& store = in.owner.store();
  store.require_writable();
  return reinterpret_cast<void*>(in.make(of, bytes, store.maker()));
}

void constructed(database_state& in, const type& of, void* object) noexcept {
  const known_type& known = in.types->at(in.types->index_of(of));
  in.types->canonicalize(known, static_cast<std::byte*>(object), of.size);
}

// Where memory is too short to give its block back, that stays unused until the store is opened again.
void unmake_object(database_state& in, void* object) noexcept try {
  in.birth->discard(reinterpret_cast<address>(object));
} catch (const std::bad_alloc&) {
}

void* require_object(store_state& in, const void* object, const type& of, const std::type_info* dynamic) {
  in.require_changeable("destroy an object");
  const database_state* const d = in.databases->at(object);
  const found_object found = d != nullptr ? d->find(object) : found_object{};
  const auto refuse = [&](const std::string& why) {
    throw error(errc::bad_free, "cannot destroy " + os::hexadecimal(object) + ": " + why);
  };
  if (!found) refuse(describe_address(object) + "it is no object of " + in.directory);
  if (d->destroyed.contains(found.at) || d->retired.contains(found.at))
    refuse(object_text(*in.databases, found.at) + " has been destroyed already in this transaction");
  if (found.at != reinterpret_cast<address>(object))
    refuse("it lies inside " + object_text(*in.databases, found.at) + ", and is no object of its own");
  const object_facts facts = d->describe(object);
  const known_type& is = d->types->at(facts.type);
  if (is.of->tolerates_stale || facts.size > std::max<std::uint64_t>(is.of->size, 1))
    refuse("it is the first element of an array, " + object_text(*in.databases, found.at) +
           ", which belongs to a container: erase it there");
  const type_operations* const known = is.of->operations;
  const bool has_type = dynamic != nullptr ? known != nullptr && known->info != nullptr && *known->info == *dynamic
                                           : is.of->name == of.name;
  if (!has_type)
    refuse("a " + of.name + " lies at the start of " + object_text(*in.databases, found.at) +
           ", and is no object of its own");
  // Its destructor may write to it.
  if (known == nullptr || known->destroy != nullptr) announce_store(object, is.of->size);
  return reinterpret_cast<void*>(found.at);
}

// Where memory is too short to note it, it stays, unreachable: a collection takes it.
void retire_object(store_state& in, void* object) noexcept try {
  database_state* const d = in.databases->at(object);
  if (d == nullptr) return;
  // A persistent object can be removed only in a write transaction. Otherwise it stays in the database, unreachable.
  if (!in.is_writer()) {
    (void)d->birth->discard_transient(reinterpret_cast<address>(object));
    return;
  }
  d->retire(object);
} catch (const std::bad_alloc&) {
}

namespace {

// The program's own memory: for containers of prototypes, and for those that are in no store while the open store is read-only.
std::mutex own_arrays_mutex;
std::unordered_map<void*, std::align_val_t> own_arrays;
std::atomic<std::size_t> own_array_count{0};

void* allocate_own(const type& of, std::size_t count) {
  const std::align_val_t alignment{std::max<std::size_t>(of.alignment, alignof(std::max_align_t))};
  const std::size_t bytes = std::max<std::size_t>(count * of.size, 1);
  void* const array = ::operator new(bytes, alignment);
  std::memset(array, 0, bytes);
  const std::scoped_lock lock(own_arrays_mutex);
  own_arrays.emplace(array, alignment);
  ++own_array_count;
  return array;
}

void deallocate_own(void* array) noexcept {
  if (own_array_count == 0) return;
  const std::scoped_lock lock(own_arrays_mutex);
  const auto found = own_arrays.find(array);
  if (found == own_arrays.end()) return;  // it belongs to a store that was closed
  ::operator delete(array, found->second);
  own_arrays.erase(found);
  --own_array_count;
}

}  // namespace

void* allocate(const type& of, std::size_t count, const void* near) {
  if (conversion_memory* const converting = conversion_memory::of_this_thread()) return converting->allocate(of, count);
  if (prototype_memory::is_used()) return allocate_own(of, count);
  store_state* store = store_at(near);
  database_state* in = nullptr;
  if (store != nullptr)
    in = store->databases->at(near);
  else {
    store = current_store();
    types::container_memory* const other = types::memory_in_caches.load(std::memory_order_acquire);
    if (other != nullptr) {
      const bool is_free = store == nullptr || !store->is_writer();
      if (void* const array = other->allocate(of, count, near, is_free)) return array;
      if (store == nullptr) return allocate_own(of, count);
    }
  }
  if (store == nullptr || (in == nullptr && store->closed))
    throw error(errc::closed, "a container needs memory, but no store is open in this process");
  if (of.size != 0 && count > SIZE_MAX / of.size)
    throw error(errc::out_of_memory, "an array of " + std::to_string(count) + " x " + of.name + " is too large");
  if (in == nullptr && store->read_only) return allocate_own(of, count);
  if (in == nullptr) in = &store->databases->front();
  store->require_writable();
  return reinterpret_cast<void*>(in->make(of, count * of.size, store->maker()));
}

void deallocate(void* array) noexcept {
  if (conversion_memory::of_this_thread() != nullptr) return;  // old, or its memory ends with the conversion
  if (store_state* const store = store_at(array); store != nullptr)
    retire_object(*store, array);
  else if (types::container_memory* const other = types::memory_in_caches.load(std::memory_order_acquire);
           other == nullptr || !other->deallocate(array))
    deallocate_own(array);
}

bool is_in_another_store(const void* container, const void* memory) noexcept {
  if (open_sets() <= 1) return false;  // mostly: each move of a long string or of a vector asks
  const store_state* const its = store_at(container);
  if (its == nullptr) return false;
  const store_state* const other = store_at(memory);
  return other != nullptr && other != its;
}

}  // namespace tenure::detail
