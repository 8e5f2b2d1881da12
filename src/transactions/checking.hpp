// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Checking mode: finds writes that no transaction has declared, the commonest mistake of users of recoverable memory
// [RVM §6].
//
// Each region has a shadow, a second private mapping of the same bytes, to which commits copy what they log: the committed
// image. At commit, pages that this process has its own copy of are compared; what differs must lie in a declared range of
// some open transaction. The declarations of other threads' transactions are read under the list's lock from their merged
// and unmerged ranges, so in this mode set_range takes that lock too.
#pragma once

#include "transactions/transaction_table.hpp"

namespace tenure::rvm {

// Throws errc::undeclared_write. With the commit lock.
void require_declared_writes_only(const transaction_table& all, const transaction_state& committing);
// Shadows get what was committed.
void update_shadows(const transaction_state& committed) noexcept;

}  // namespace tenure::rvm
