// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/report.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <stdexcept>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace tenure::bench {

void table::print() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      if (i == 0) {
        line += fmt::format("  {:<{}}", rows_[r][i], widths[i]);
      } else {
        line += fmt::format("  {:>{}}", rows_[r][i], widths[i]);
      }
    }
    fmt::print("{}\n", line);
    if (r > 0) continue;
    std::size_t total = 0;
    for (const auto width : widths) total += width + 2;
    fmt::print("  {:-<{}}\n", "", total - 2);
  }
}

std::string number(double value) {
  const double size = std::fabs(value);
  if (size >= 1000) {
    std::string digits = fmt::format("{:.0f}", value);
    const std::size_t first = value < 0 ? 1 : 0;
    for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ' ');
    return digits;
  }
  if (size >= 100) return fmt::format("{:.0f}", value);
  if (size >= 10) return fmt::format("{:.1f}", value);
  if (size >= 1) return fmt::format("{:.2f}", value);
  if (size == 0) return "0";
  return fmt::format("{:.3g}", value);
}

std::string range(const summary& of) { return fmt::format("[{} .. {}]", number(of.min), number(of.max)); }

void json_lines::add(const result& line) const {
  if (path.empty()) return;
  nlohmann::json object = line.extra;
  object["date"] = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  object["bench"] = line.bench;
  object["contender"] = line.contender;
  object["case"] = line.case_name;
  object["metric"] = line.metric;
  object["value"] = line.value.median;
  object["unit"] = line.unit;
  if (!line.of.empty()) {
    object["ratio"] = line.ratio;
    object["of"] = line.of;
  }
  object["n"] = line.value.n;
  object["min"] = line.value.min;
  object["max"] = line.value.max;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  std::ofstream out{path, std::ios::app};
  out << object.dump() << '\n';
  if (!out.flush()) throw std::runtime_error(fmt::format("cannot write {}", path.string()));
}

}  // namespace tenure::bench
