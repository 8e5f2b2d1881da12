// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "tpca/options.hpp"

namespace tenure::bench::tpca {
namespace {

constexpr std::string_view beyond = "cpu_us_per_tx";  // the metric that is also shown as a difference to the baseline

result line_of(const std::string& case_name, const outcome& one, const metric& what, std::vector<double> values,
               const nlohmann::json& context) {
  result line;
  line.bench = "tpca";
  line.contender = one.name;
  line.case_name = case_name;
  line.metric = what.key;
  line.unit = what.unit;
  line.value = summarize(std::move(values));
  line.extra = context;
  line.extra["discarded"] = one.discarded;
  return line;
}

void write_json(const program_options& how, const std::string& case_name, const outcome& one,
                const std::vector<metric>& metrics, const nlohmann::json& context) {
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    auto values = one.values(metrics[m].key);
    if (values.empty()) continue;
    result line = line_of(case_name, one, metrics[m], std::move(values), context);
    if (const auto ratios = one.ratios(metrics[m].key); m == 0 && !ratios.empty()) {
      const summary ratio = summarize(ratios);
      line.of = one.baseline;
      line.ratio = ratio.median;
      line.extra["ratio_min"] = ratio.min;
      line.extra["ratio_max"] = ratio.max;
    }
    how.json.add(line);
    if (metrics[m].key != beyond || one.baseline.empty()) continue;
    auto differences = one.differences(metrics[m].key);
    if (!differences.empty())
      how.json.add(line_of(case_name, one, {"cpu_us_beyond_baseline", "us", ""}, std::move(differences), context));
  }
}

// Metrics without a heading are for machines only.
std::vector<metric> shown(const std::vector<metric>& metrics) {
  std::vector<metric> some;
  std::copy_if(metrics.begin(), metrics.end(), std::back_inserter(some),
               [](const metric& one) { return !one.heading.empty(); });
  return some;
}

std::vector<std::string> headings_for(const std::vector<metric>& metrics) {
  std::vector<std::string> headings{
      "contender", metrics.front().heading, "[min .. max]", "runs", "ratio", "[min .. max]", "of"};
  for (std::size_t m = 1; m < metrics.size(); ++m) {
    headings.push_back(metrics[m].heading);
    if (metrics[m].key == beyond) headings.emplace_back("beyond base");
  }
  return headings;
}

std::vector<std::string> row_of(const outcome& one, const std::vector<metric>& metrics) {
  if (!one.failure.empty()) return {one.name, "FAILED"};
  const summary value = summarize(one.values(metrics.front().key));
  std::vector<std::string> row{one.name, number(value.median), range(value)};
  row.push_back(fmt::format("{}", value.n) + (one.discarded != 0 ? fmt::format("+{}", one.discarded) : ""));
  const auto ratios = one.ratios(metrics.front().key);
  if (ratios.empty()) {
    row.insert(row.end(), {"", "", ""});
  } else {
    const summary ratio = summarize(ratios);
    row.push_back(number(ratio.median));
    row.push_back(range(ratio));
    row.push_back(one.baseline);
  }
  for (std::size_t m = 1; m < metrics.size(); ++m) {
    const auto values = one.values(metrics[m].key);
    row.push_back(values.empty() ? "-" : number(summarize(values).median));
    if (metrics[m].key != beyond) continue;
    const auto differences = one.differences(metrics[m].key);
    row.push_back(differences.empty() ? "" : number(summarize(differences).median));
  }
  return row;
}

}  // namespace

bool report_case(const program_options& how, const std::string& case_name, const std::vector<outcome>& outcomes,
                 const std::vector<metric>& metrics, const std::vector<std::string>& not_built,
                 const nlohmann::json& context) {
  const auto columns = shown(metrics);
  table rows{headings_for(columns)};
  bool good = true;
  unsigned discarded = 0;
  for (const auto& one : outcomes) {
    rows.add(row_of(one, columns));
    discarded += one.discarded;
    nlohmann::json extra = context;
    if (context.contains("settings")) {
      extra.erase("settings");
      if (context["settings"].contains(one.name)) extra.update(context["settings"][one.name]);
    }
    if (one.failure.empty()) {
      write_json(how, case_name, one, metrics, extra);
    } else {
      good = false;
    }
  }
  for (const auto& name : not_built) rows.add({name, "not built"});
  rows.print();
  for (const auto& one : outcomes) {
    if (!one.failure.empty()) fmt::print("  {} FAILED: {}\n", one.name, one.failure);
  }
  if (discarded != 0)
    fmt::print(
        "  +{} runs were discarded because the baseline run before them was more than 1.5 times off its median,"
        " and repeated (at most as often as there are rounds)\n",
        discarded);
  return good;
}

bool program_options::wants_contender(const std::string& name) const {
  return contenders.empty() || std::find(contenders.begin(), contenders.end(), name) != contenders.end();
}

bool program_options::wants_case(const std::string& name) const {
  if (cases.empty()) return true;
  return std::any_of(cases.begin(), cases.end(),
                     [&](const std::string& wanted) { return name == wanted || name.starts_with(wanted + "-"); });
}

}  // namespace tenure::bench::tpca
