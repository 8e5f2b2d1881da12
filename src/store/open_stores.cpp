// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store/open_stores.hpp"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "log/invariant.hpp"
#include "store/store_state.hpp"

namespace tenure {

namespace {

std::mutex open_stores_mutex;
std::vector<store_state*> open_stores;                // in the order of opening
std::atomic<store_state*> newest_store{nullptr};      // the last of them
thread_local store_state* store_of_thread = nullptr;  // its other stores with transactions: store_state::outer

}  // namespace

// Another thread may have destroyed the program's object of a store in which this one has a transaction.
store_state* current_store() noexcept {
  while (store_of_thread != nullptr && store_of_thread->closed) [[unlikely]] store_of_thread = store_of_thread->outer;
  return store_of_thread != nullptr ? store_of_thread : newest_store.load(std::memory_order_acquire);
}
store_state* store_at(const void* address) noexcept {
  if (address == nullptr) return nullptr;
  if (store_state* const current = current_store(); current != nullptr && current->databases->at(address) != nullptr)
    return current;
  if (open_sets() <= 1) return nullptr;
  const database_set* const found = open_set_with(address);
  return found == nullptr ? nullptr : &found->store();
}
void transaction_begun(store_state& in) noexcept { in.outer = std::exchange(store_of_thread, &in); }
void transaction_ended(store_state& in) noexcept {
  store_state** at = &store_of_thread;
  while (*at != nullptr && *at != &in) at = &(*at)->outer;
  if (*at != nullptr) *at = in.outer;
}
void store_opened(store_state& which) {
  const std::scoped_lock lock(open_stores_mutex);
  which.databases->announce();
  open_stores.push_back(&which);
  newest_store = &which;
}
void store_closed(store_state& which) noexcept {
  const std::scoped_lock lock(open_stores_mutex);
  std::erase(open_stores, &which);
  newest_store = open_stores.empty() ? nullptr : open_stores.back();
}

void check_store_at(const void* address) {
  store_state* const store = store_at(address);
  rvm::require_invariant(store != nullptr, "an open store is found by its addresses");
  const reading_scope reading(*store);
  store->check();
}

}  // namespace tenure
