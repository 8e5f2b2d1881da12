// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A churned graph: so many objects in a table of slots, of which a share is dropped and made anew, again and again.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "collect/contender.hpp"
#include "collect/group.hpp"

namespace tenure::bench::collect {

struct churn_plan {
  std::uint64_t objects = 200'000;  // that live at once
  double turnover = 5;              // how often each object is replaced, on average
  [[nodiscard]] std::uint64_t slots() const { return (objects + group_size - 1) / group_size; }
};

// One run, in a process of its own. What is left is checked, by following all references, before and after tidying. By name:
//   ns_per_object, cpu_ns_per_object   of time, and of processor time of all threads, for each object that is replaced, until all is durable
//   built_file, churned_file, tidied_file   bytes of the files with objects, by the bytes of objects that live; tidied: on the disk
//   built_memory, churned_memory, tidied_memory   the same of the process's resident memory, beyond what it had before
//   built_anonymous, churned_anonymous, tidied_anonymous   and of that part of it that is no page of a file
//   log_mib, tidy_ms, and what the contender tells
[[nodiscard]] nlohmann::json churn(contender& who, const std::filesystem::path& directory, const churn_plan& how);

}  // namespace tenure::bench::collect
