// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log_text.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <iterator>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <tenure/error.hpp>

namespace tenure::tools {

std::string hex_text(os::const_bytes bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte b : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<unsigned>(b));
  return text;
}

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned value = 0;
    const char* const from = digits.data() + i;
    const auto [end, code] = std::from_chars(from, from + std::min<std::size_t>(2, digits.size() - i), value, 16);
    if (code != std::errc{} || end != from + 2)
      throw error(errc::bad_option, "\"" + digits + "\": bytes are given as pairs of hexadecimal digits");
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string dump_text(os::const_bytes bytes, std::uint64_t offset, const std::string& indent) {
  constexpr std::size_t width = 16;
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    const auto line = bytes.subspan(at, std::min(width, bytes.size() - at));
    fmt::format_to(std::back_inserter(text), "{}{:>10}  ", indent, offset + at);
    for (std::size_t i = 0; i < width; ++i)
      text += i < line.size() ? fmt::format("{:02x} ", std::to_integer<unsigned>(line[i])) : "   ";
    text += " ";
    for (const std::byte b : line) {
      const char c = static_cast<char>(b);
      text += c >= ' ' && c <= '~' ? c : '.';
    }
    text += '\n';
  }
  return text;
}

}  // namespace tenure::tools
