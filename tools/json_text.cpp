// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "json_text.hpp"

namespace tenure::tools {

std::string json_text(const nlohmann::ordered_json& what, int indent) {
  return what.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

nlohmann::json parse_json(const std::string& text) { return nlohmann::json::parse(text); }

}  // namespace tenure::tools
