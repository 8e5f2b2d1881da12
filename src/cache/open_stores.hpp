// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The stores that this process has in caches, and each thread's transactions: a ref does not say which store it belongs to.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/store_state.hpp"

namespace tenure::cache {

void add_open(const std::shared_ptr<store_state>& opened);
void remove_open(const store_state& closed) noexcept;

// This thread's transaction of the store, or of the store with this home address; nullptr: it has none.
[[nodiscard]] open_transaction* transaction_in(const store_state& store) noexcept;
[[nodiscard]] open_transaction* transaction_at_home(std::uint64_t home) noexcept;
// The store with the object of which the address in memory has a byte; nullptr: none. The thread's transactions come first.
[[nodiscard]] std::shared_ptr<store_state> store_with(std::uintptr_t address);
// The store that the home address belongs to; nullptr: none.
[[nodiscard]] std::shared_ptr<store_state> store_at_home(std::uint64_t home);

// The thread owns it until it ends.
[[nodiscard]] open_transaction* begin_in_thread(std::unique_ptr<open_transaction> tx);
void end_in_thread(const open_transaction& tx) noexcept;

}  // namespace tenure::cache
