// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Checks everything that is known of a store against everything else: the independent judge of commits, collections and
// crashes in the tests, and of `tenure verify`.
#pragma once

#include <string>
#include <vector>

namespace tenure {
class database_set;
}

namespace tenure::heap {

// Whose transaction the caller is in: nobody writes meanwhile, or the thread itself does.
enum class verified_by { reader, writer };

// One sentence for each thing that is wrong, at most some hundred. Checksums of what is on the disk are compared for readers
// only.
[[nodiscard]] std::vector<std::string> verify(const database_set& store, verified_by who);

}  // namespace tenure::heap
