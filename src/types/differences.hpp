// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <tenure/type.hpp>

namespace tenure::types {

// What has changed between a type as it is stored and as the program has it, a sentence each, field by field and into nested
// types: "package.depends: was item* at offset 16, is item*[2] at offset 24". Empty if the two are the same type: same version,
// same fingerprint.
[[nodiscard]] std::vector<std::string> differences(const type& stored, const type& program);

}  // namespace tenure::types
