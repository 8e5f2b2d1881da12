// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The stores that this process has in caches, and each thread's transactions: a ref does not say which store it belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cache/store_state.hpp"

namespace tenure::cache {

// Throws errc::address_taken or errc::in_use if another one has some of its home addresses: a ref does not say which store it
// belongs to [cache.homes].
void add_open(const std::shared_ptr<store_state>& opened);
void remove_open(const store_state& closed) noexcept;

// This thread's transaction of the store, or of the store with this home address; nullptr: it has none.
[[nodiscard]] open_transaction* transaction_in(const store_state& store) noexcept;
[[nodiscard]] open_transaction* transaction_at_home(std::uint64_t home) noexcept;
// The thread's transaction that locks objects, of the store that it has begun one of last; nullptr: it has none.
[[nodiscard]] open_transaction* locking_transaction() noexcept;
// Whether a store of which the thread has a transaction has an object there; if so, its change is announced.
bool announce_in_thread(std::uintptr_t address, std::size_t length);
// The store with the object of which the address in memory has a byte; nullptr: none. The thread's transactions come first. What it
// returns, and what the next one does, keeps the store's memory, and does not keep it open.
[[nodiscard]] std::shared_ptr<store_state> store_with(std::uintptr_t address);
// The store that the home address belongs to; nullptr: none.
[[nodiscard]] std::shared_ptr<store_state> store_at_home(std::uint64_t home);

// It is on the thread's list, and exists, until it ends, also if the thread ends before [cache.thread].
[[nodiscard]] open_transaction* begin_in_thread(const std::shared_ptr<open_transaction>& tx);
// Returns what keeps it.
std::shared_ptr<open_transaction> end_in_thread(open_transaction& tx) noexcept;

}  // namespace tenure::cache
