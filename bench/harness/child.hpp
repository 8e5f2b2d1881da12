// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Another run of this very program in a process of its own: for what must die without cleaning up, and for what must be
// measured in fresh memory.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tenure::bench {

// Runs this program's file with these arguments and waits. The child's standard output must be one JSON object, which
// is returned. Throws if the child fails, with what it said.
[[nodiscard]] nlohmann::json run_child(const std::vector<std::string>& arguments);
// What the child calls once, with that object.
void tell_parent(const nlohmann::json& said);

}  // namespace tenure::bench
