// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <tenure/type.hpp>

namespace tenure::types {

// The differences between a type as it is stored and as the program has it: one sentence each, field by field and into
// nested types, as in "package.depends: was item* at offset 16, is item*[2] at offset 24". Empty if both have the same
// version and the same fingerprint.
[[nodiscard]] std::vector<std::string> differences(const type& stored, const type& program);

}  // namespace tenure::types
