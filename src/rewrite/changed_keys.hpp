// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Keys of ordered containers whose class has changed: whether their order stays. Asked by conversions, and by `tenure schema
// check`, which has no objects to look at [heap.rewrite.plan].
#pragma once

#include <map>
#include <string>
#include <vector>

#include "types/evolution.hpp"

namespace tenure::rewriting {

// By the names of stored types: nodes of trees that cannot be converted, and why, in a sentence. `stored`: all types of a store. If
// there is no object of such a type, its containers are empty, and nothing is wrong.
[[nodiscard]] std::map<std::string, std::string> nodes_with_changed_keys(const std::vector<const type*>& stored,
                                                                         const types::evolution& plan);

}  // namespace tenure::rewriting
