// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The open stores of this process: which one containers use, and which one an address belongs to.
#pragma once

namespace tenure {

struct store_state;

// The store that containers use: the one whose write transaction the thread has begun last, or else the one that was
// opened last.
[[nodiscard]] store_state* current_store() noexcept;
// The open store that has a database at the address, current_store() first; nullptr: none.
[[nodiscard]] store_state* store_at(const void* address) noexcept;
// The thread has begun, or ended, a write transaction. A thread may have one in each of several stores.
void transaction_begun(store_state& in) noexcept;
void transaction_ended(store_state& in) noexcept;
void store_opened(store_state& which);
void store_closed(store_state& which) noexcept;

// Throws if an invariant of the open store with a database at the address does not hold. For tests, which see no more
// of a store.
void check_store_at(const void* address);

}  // namespace tenure
