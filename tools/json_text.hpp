// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// JSON as text, and back: compiled once, as each user of nlohmann's own functions takes a second or two for them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace tenure::tools {

// On one line if `indent` is negative. Labels and paths may be any bytes: what is no UTF-8 is replaced.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& what, int indent = 2);
// Throws nlohmann's exception if it is no JSON.
[[nodiscard]] nlohmann::json parse_json(const std::string& text);

}  // namespace tenure::tools
