// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One run of an OO1 case, in a process of its own: ten iterations on different parts, from cold to warm, then hot ones on
// the last parts again [White & DeWitt 1992, section 4].
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "oo1/contender.hpp"

namespace tenure::bench::oo1 {

enum class kind { lookup, traversal, reverse, insert, update };

struct case_plan {
  std::string name;  // "lookup", "update-p50"
  kind what;
  int percent = 0;  // of parts that an update changes
};
[[nodiscard]] std::span<const case_plan> all_cases();
[[nodiscard]] const case_plan& case_named(const std::string& name);

// "20k", "1M"; throws for what is no number.
[[nodiscard]] int parts_from(const std::string& text);

struct measuring {
  int warm_iterations = 10, hot_iterations = 20;
  std::vector<int> traversals_per_transaction{1, 5, 10, 15, 20, 50, 100, 500};
  double longest_ms = 3000;  // of a transaction of many traversals; more are not tried
};
// {"warm": [ms, the first one cold], "hot": [ms], "open": ms, "fit": {"n": […], "ms": […], "updated": parts of each traversal}, "breakdown": {…}}. Times of
// insertions and updates contain their commit. Opens the database, or makes it if it cannot be opened. A wrong answer
// throws.
[[nodiscard]] nlohmann::json measure(contender& who, const case_plan& what, int parts, const measuring& how);

}  // namespace tenure::bench::oo1
