// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Checks everything that is known about a store against everything else. Tests use it as the independent judge of
// commits, collections and crashes, and `tenure verify` uses it.
#pragma once

#include <string>
#include <vector>

namespace tenure {
class database_set;
}

namespace tenure::heap {

// The transaction of the caller: nobody writes meanwhile, or the thread itself is the writer.
enum class verified_by { reader, writer };

// Returns one sentence for each mistake, at most some hundred. Checksums of the data on the disk are compared for
// readers only.
[[nodiscard]] std::vector<std::string> verify(const database_set& store, verified_by who);

}  // namespace tenure::heap
