// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Checking mode: finds writes that no transaction has declared. They are the commonest mistake of users of recoverable
// memory [RVM §6].
//
// Each region has a shadow: a second private mapping of the same bytes. Commits copy what they log to it, so it holds
// the committed image. A commit compares the pages of which this process has a private copy. Bytes that differ must lie
// in a declared range of some open transaction. The declarations of other threads' transactions are read from their
// merged and unmerged ranges under the list's lock, so set_range takes that lock in this mode.
#pragma once

#include <span>

#include "transactions/transaction_table.hpp"

namespace tenure::rvm {

// Throws errc::undeclared_write. Called with the commit lock held.
void require_declared_writes_only(const transaction_table& all, const transaction_state& committing);
// Copies the committed bytes to the shadows.
void update_shadows(const transaction_state& committed) noexcept;
// What is in memory where something was, or would have been, written in bulk: an abort puts nothing back there. Called with the list's
// lock held, or with the commit lock.
void accept_bulk(std::span<const transaction_state::bulk_write> which) noexcept;

}  // namespace tenure::rvm
