// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Characters of text that may be any bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenure::types {

struct utf8_character {
  std::size_t length = 0;  // bytes; 0: it is no UTF-8
  char32_t code = 0;
};
// The first one of a text that is not empty.
[[nodiscard]] utf8_character first_character(std::string_view text);

}  // namespace tenure::types
