// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Results, for people and for machines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/statistics.hpp"

namespace tenure::bench {

// Columns of text, the first to the left and the others to the right.
class table {
 public:
  explicit table(std::vector<std::string> headers) : rows_{std::move(headers)} {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A number with as many digits as it deserves: "12 345", "12.3", "0.0123".
[[nodiscard]] std::string number(double value);
// "[min .. max]"
[[nodiscard]] std::string range(const summary& of);

// One line of results. `extra` has what else a reader should know, e.g. the log's size.
struct result {
  std::string bench, contender, case_name, metric, unit;
  summary value;
  std::string of;  // the baseline's name; "": no ratio
  double ratio = 0;
  nlohmann::json extra = nlohmann::json::object();
};

// Appends one JSON object a line to a file; does nothing if its path is empty.
struct json_lines {
  std::filesystem::path path;
  void add(const result& line) const;
};

}  // namespace tenure::bench
