// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What bench_paging says of a figure, in its tables and to machines.
#pragma once

#include <string>
#include <vector>

#include "harness/rounds.hpp"
#include "paging/options.hpp"

namespace tenure::bench::paging {

struct figure {
  std::string contender, case_name, metric, unit;
  bool compared = false;  // with the baseline of its outcome
};

// Writes the line for machines, and appends to `row` the median with its range and, if it is compared, those of the ratio.
void report(const program_options& how, const figure& what, const outcome& of, std::vector<std::string>& row);

}  // namespace tenure::bench::paging
