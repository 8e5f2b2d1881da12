// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/open_stores.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include <tenure/cache/ref.hpp>

#include "cache/store_state.hpp"
#include "os/process.hpp"
#include "regions/announced_stores.hpp"
#include "types/container_memory.hpp"

namespace tenure::cache {

namespace {

// Whoever has a store last takes it off the list, with the mutex. So nobody who has the mutex lets go of one.
struct registry {
  struct entry {
    const store_state* which;
    std::weak_ptr<store_state> store;
    std::uint64_t number;  // they ascend
  };
  std::mutex mutex;
  std::vector<entry> stores;
  std::uint64_t next_number = 0;
  std::atomic<std::size_t> count{0};
};
// Never destroyed, because stores at namespace scope are closed at any time.
registry& all() {
  static registry* const the_registry = new registry;
  return *the_registry;
}

// No thread is in the middle of a change when a fork copies it.
[[maybe_unused]] const int fork_handlers = os::around_forks([] { all().mutex.lock(); }, [] { all().mutex.unlock(); });

// Containers announce what they store; those in objects that a transaction of the thread may change are heard here.
class containers_in_caches final : public rvm::store_listener {
 public:
  void store_announced(std::byte* at, std::size_t) noexcept override;
} containers;

// Containers in objects of caches have their elements there, and so have others while the thread changes a store.
class arrays_in_caches final : public types::container_memory {
 public:
  [[nodiscard]] void* allocate(const type& of, std::size_t count, const void* near, bool is_free) override;
  [[nodiscard]] bool deallocate(void* array) noexcept override;
} arrays;

// Set when the thread ends, and its list is gone; containers that live longer announce what they store even then.
constinit thread_local bool is_ending = false;

constinit thread_local open_transaction* locking = nullptr;

// The thread's last transaction with a bit in lock words. The bit is the thread's as long as it has one.
void look_for_locking(const std::vector<std::shared_ptr<open_transaction>>& mine) noexcept {
  locking = nullptr;
  for (const auto& tx : mine)
    if (tx->bit != 0) locking = tx.get();
  detail::holder_bit = locking == nullptr ? 0 : locking->bit;
}

// Those that have ended in another thread stay until this one looks.
std::vector<std::shared_ptr<open_transaction>>& of_this_thread() noexcept {
  struct list {
    std::vector<std::shared_ptr<open_transaction>> transactions;
    ~list() {
      is_ending = true;
      locking = nullptr;
      detail::holder_bit = 0;
    }
  };
  static thread_local list mine;
  // Those of the parent of this process are nobody's here; they and their stores stay.
  const auto is_over = [](const auto& tx) { return tx->has_ended.load() || tx->of->is_of_the_parent(); };
  if (std::erase_if(mine.transactions, is_over) != 0) look_for_locking(mine.transactions);
  return mine.transactions;
}

void containers_in_caches::store_announced(std::byte* at, std::size_t length) noexcept {
  if (is_ending || rvm::own_stores::are_made()) return;
  for (const auto& tx : of_this_thread())
    if (tx->writes) tx->of->announce_of_container(*tx, reinterpret_cast<std::uintptr_t>(at), length);
}

void* arrays_in_caches::allocate(const type& of, std::size_t count, const void* near, bool is_free) {
  const auto address = reinterpret_cast<std::uintptr_t>(near);
  if (const auto store = store_with(address)) return store->make_array(transaction_in(*store), of, count, address);
  // Standard containers do not say where they are, and do not announce what they change [cache.containers.standard].
  if (is_ending || !is_free || near == nullptr) return nullptr;
  for (const auto& tx : of_this_thread())
    if (tx->writes) return tx->of->make_array(tx.get(), of, count, address);
  return nullptr;
}

bool arrays_in_caches::deallocate(void* array) noexcept {
  if (rvm::own_stores::are_made()) return false;  // a prototype's; see detail::allocate
  const auto address = reinterpret_cast<std::uintptr_t>(array);
  const auto store = store_with(address);
  return store != nullptr && store->destroy_array(transaction_in(*store), address);
}

// One after the other, and not from a list of all: whoever gives memory back cannot fail for want of some.
template <class F>
std::shared_ptr<store_state> first_open(F&& f) noexcept {
  registry& r = all();
  if (r.count.load(std::memory_order_relaxed) == 0) return nullptr;  // a program that only maps stores
  for (std::uint64_t next = 0;;) {
    std::shared_ptr<store_state> store;
    {
      const std::scoped_lock lock(r.mutex);
      const auto found = std::ranges::find_if(r.stores, [&](const registry::entry& each) {
        if (each.number < next) return false;
        store = each.store.lock();
        return store != nullptr;
      });
      if (found == r.stores.end()) return nullptr;
      next = found->number + 1;
    }
    if (!store->is_of_the_parent() && f(*store)) return store;
  }
}

}  // namespace

constinit thread_local std::uint64_t detail::holder_bit = 0;

void add_open(const std::shared_ptr<store_state>& opened) {
  registry& r = all();
  std::vector<std::shared_ptr<store_state>> others;
  const std::scoped_lock lock(r.mutex);
  others.reserve(r.stores.size());
  for (const auto& each : r.stores)
    if (auto other = each.store.lock()) {
      others.push_back(std::move(other));
      opened->require_other_homes(*others.back());
    }
  r.stores.push_back({opened.get(), opened, r.next_number++});
  ++r.count;
  tenure::detail::home_of_cached = [](std::uint64_t address) noexcept {
    return address == 0 ? 0 : detail::home_of(address);
  };
  rvm::listen_elsewhere(&containers);
  types::memory_in_caches = &arrays;
}

void remove_open(const store_state& closed) noexcept {
  registry& r = all();
  const std::scoped_lock lock(r.mutex);
  std::erase_if(r.stores, [&](const registry::entry& each) { return each.which == &closed; });
  r.count = r.stores.size();
  if (!r.stores.empty()) return;
  tenure::detail::home_of_cached = nullptr;
  rvm::listen_elsewhere(nullptr);
  types::memory_in_caches = nullptr;
}

open_transaction* transaction_in(const store_state& store) noexcept {
  if (is_ending) return nullptr;
  for (const auto& tx : of_this_thread())
    if (tx->of.get() == &store) return tx.get();
  return nullptr;
}

open_transaction* transaction_at_home(std::uint64_t home) noexcept {
  for (const auto& tx : of_this_thread())
    if (tx->of->has_home(home)) return tx.get();
  return nullptr;
}

bool announce_in_thread(std::uintptr_t address, std::size_t length) {
  if (is_ending) return false;
  for (const auto& tx : of_this_thread())
    if (tx->of->announce(*tx, address, length)) return true;
  return false;
}

std::shared_ptr<store_state> store_with(std::uintptr_t address) {
  if (!is_ending)
    for (const auto& tx : of_this_thread())
      if (tx->of->has_at(address)) return tx->of;
  return first_open([&](const store_state& store) { return store.has_at(address); });
}

std::shared_ptr<store_state> store_at_home(std::uint64_t home) {
  return first_open([&](const store_state& store) { return store.has_home(home); });
}

open_transaction* locking_transaction() noexcept {
  return locking != nullptr && !locking->has_ended.load() ? locking : nullptr;
}

open_transaction* begin_in_thread(const std::shared_ptr<open_transaction>& tx) {
  auto& mine = of_this_thread();
  if (tx->of->locks_objects()) {
    tx->store = tx->of->number();
    if (tx->store != 0) {
      for (const auto& other : mine)
        if (other->bit_holder != nullptr) tx->bit_holder = other->bit_holder;
      if (tx->bit_holder == nullptr) tx->bit_holder = given_number::take(given_number::purpose::thread);
    }
    if (tx->bit_holder != nullptr) tx->bit = tx->bit_holder->bits();
  }
  mine.push_back(tx);
  tx->until_ended = tx;
  if (tx->bit != 0) look_for_locking(mine);
  return tx.get();
}

std::shared_ptr<open_transaction> end_in_thread(open_transaction& tx) noexcept {
  auto alive = std::move(tx.until_ended);
  tx.has_ended = true;
  (void)of_this_thread();
  return alive;
}

}  // namespace tenure::cache
