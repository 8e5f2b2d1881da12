// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Checks everything that is known of a store against everything else: the independent judge of commits, collections and
// crashes in the tests, and of `tenure verify`.
#pragma once

#include <string>
#include <vector>

namespace tenure {
struct store_state;
}

namespace tenure::heap {

// One sentence for each thing that is wrong, at most some hundred. Outside of transactions, or in a read transaction;
// checksums of what is on the disk are compared unless the store was opened by the thread's own write transaction.
[[nodiscard]] std::vector<std::string> verify_store(store_state& store);

}  // namespace tenure::heap
