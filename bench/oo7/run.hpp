// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One run of an OO7 case, in a process of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "oo7/contender.hpp"

namespace tenure::bench::oo7 {

// Five iterations, of which some operations are timed.
struct case_plan {
  std::string name;                 // "T1", "CU", "insert"
  std::optional<operation> before;  // untimed, in the same transaction
  operation timed;
  std::optional<operation> after;  // untimed: undoes what was timed
  bool undoes_itself = false;      // run twice is not run at all: a sixth iteration, untimed, restores the database
};
[[nodiscard]] const std::vector<case_plan>& all_cases();
[[nodiscard]] const case_plan& case_named(const std::string& name);

enum class chaining { one, many };  // one transaction, or one for each iteration

// What every contender must answer.
struct expected_answers {
  std::uint64_t count = 0;
  totals sums;
};
[[nodiscard]] nlohmann::json to_json(const totals& of);
[[nodiscard]] totals totals_from(const nlohmann::json& of);

// All answers of a database, by operation, which is as before afterwards: {"counts": {...}, "sums": {...}}. A contradiction
// to what is known throws.
[[nodiscard]] nlohmann::json find_answers(contender& who, const configuration& how);

// {"iterations": [5 × ms], "commits": [ms, after each iteration or one], "open": ms, "breakdown": {…}}. With chaining, an
// iteration contains its commit. Opens the database, or makes it if it cannot be opened. A wrong answer throws.
[[nodiscard]] nlohmann::json measure(contender& who, const case_plan& what, chaining how,
                                     const expected_answers& expected);

}  // namespace tenure::bench::oo7
