// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a command has shown.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "json_text.hpp"

namespace tenure::tools {

struct shown {
  int exit_code;
  std::string text;
  [[nodiscard]] nlohmann::json parsed() const { return parse_json(text); }
  [[nodiscard]] bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

// Runs f, which prints to a stream.
inline shown show(const std::function<int(std::FILE*)>& f) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), &std::fclose);
  shown result{f(out.get()), {}};
  result.text.resize(static_cast<std::size_t>(std::ftell(out.get())));
  std::rewind(out.get());
  EXPECT_EQ(std::fread(result.text.data(), 1, result.text.size(), out.get()), result.text.size());
  return result;
}

}  // namespace tenure::tools
