// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Layouts as JSON: of a program, and of a store. docs/formats.md has the form.
#pragma once

#include <string>
#include <vector>

#include <tenure/type.hpp>

namespace tenure::types {

[[nodiscard]] const char* name_of(field_kind kind);
[[nodiscard]] const char* name_of(scalar_kind kind);

[[nodiscard]] std::string schema_text(const std::vector<const type*>& all);

}  // namespace tenure::types
