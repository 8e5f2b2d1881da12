// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/utf8.hpp"

namespace tenure::types {

utf8_character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead < 0xc2 || lead >= 0xf5 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (length == 0 || text.size() < length) return {};
  char32_t code = lead & (0x7fU >> length);
  for (std::size_t n = 1; n < length; ++n) {
    const auto next = static_cast<unsigned char>(text[n]);
    if ((next & 0xc0U) != 0x80) return {};
    code = code << 6U | (next & 0x3fU);
  }
  const bool is_too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (is_too_long || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {};
  return {length, code};
}

}  // namespace tenure::types
