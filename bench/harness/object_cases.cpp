// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/object_cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/child.hpp"

namespace tenure::bench {

const std::filesystem::path& made_databases::get(const std::string& contender, const std::string& which,
                                                 std::vector<std::string> create_arguments, const char* environment) {
  const auto [at, is_new] = known_.try_emplace(contender + '-' + which);
  made& one = at->second;
  if (is_new) {
    one.directory = parent_ / at->first;
    std::filesystem::create_directories(one.directory);
    create_arguments.insert(create_arguments.end(), {"--dir", one.directory.string()});
    const bool set = *environment != '\0';
    if (set) ::setenv(environment, "1", 1);
    try {
      static_cast<void>(run_child(create_arguments));
    } catch (const std::exception& e) {
      one.failure = e.what();
    }
    if (set) ::unsetenv(environment);
  }
  if (!one.failure.empty()) throw std::runtime_error("the database cannot be made: " + one.failure);
  return one.directory;
}

void made_databases::clear() {
  for (const auto& [name, one] : known_) std::filesystem::remove_all(one.directory);
  known_.clear();
}

double drop_directory_from_cache(const std::filesystem::path& directory) {
  double stayed = 0;
  std::uintmax_t largest = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{directory}) {
    if (!entry.is_regular_file()) continue;
    const double share = drop_from_cache(entry.path());
    if (entry.file_size() < largest) continue;
    largest = entry.file_size();
    stayed = share;
  }
  return stayed;
}

namespace {

result line_for(const shown_case& one, const outcome& of, const std::string& metric, const std::string& key) {
  result line;
  line.bench = one.bench;
  line.contender = of.name;
  line.case_name = one.name;
  line.metric = metric;
  line.unit = metric.ends_with("milliseconds") || metric.ends_with("_ms") ? "ms" : "";
  const auto values = of.values(key);
  line.value = summarize(values);
  line.extra = one.extra;
  line.extra["discarded"] = of.discarded;
  const interval mean = mean_interval(values);
  line.extra["mean_90"] = {mean.low, mean.high};
  if (const auto found = one.settings.find(of.name); found != one.settings.end()) line.extra["setting"] = found->second;
  return line;
}

}  // namespace

bool show_case(const shown_case& one, const std::vector<outcome>& outcomes, const json_lines& to) {
  bool good = true;
  fmt::print("{}: {}\n", one.name, one.what);
  std::vector<std::string> heads{"contender", "ms", "[min .. max]", "runs"};
  if (one.with_ratios) heads.insert(heads.end(), {"ratio", "95 % of the median"});
  for (const auto& key : one.more) heads.push_back(key);
  table rows{heads};
  for (const outcome& of : outcomes) {
    if (!of.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", of.name, of.failure);
      good = false;
      continue;
    }
    if (of.values(one.key).empty()) continue;
    result line = line_for(one, of, "milliseconds", one.key);
    std::vector<std::string> row{of.name, number(line.value.median), range(line.value),
                                 fmt::format("{}", line.value.n)};
    if (one.with_ratios) {
      row.insert(row.end(), {"", ""});
      if (const auto ratios = of.ratios(one.key); !ratios.empty()) {
        const interval sure = median_interval(ratios);
        const summary all = summarize(ratios);
        line.of = of.baseline;
        line.ratio = all.median;
        line.extra["ratio_min"] = all.min;
        line.extra["ratio_max"] = all.max;
        line.extra["ratio_95"] = {sure.low, sure.high};
        row[4] = number(all.median);
        row[5] = fmt::format("[{} .. {}]", number(sure.low), number(sure.high));
      }
    }
    to.add(line);
    for (const auto& key : one.more) {
      const result extra = line_for(one, of, key, key);
      row.push_back(extra.value.n == 0 ? "" : number(extra.value.median));
      if (extra.value.n != 0) to.add(extra);
    }
    rows.add(row);
  }
  rows.print();
  fmt::print("\n");
  return good;
}

bool show_metric(const shown_metric& one, const std::vector<outcome>& outcomes, const json_lines& to) {
  fmt::print("{}: {}\n", one.case_name, one.what);
  const outcome& first = outcomes.front();
  table rows{{"contender", one.unit, "[min .. max]", one.with_ratios ? "× " + first.name : ""}};
  bool good = true;
  for (const outcome& each : outcomes) {
    if (!each.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", each.name, each.failure);
      good = false;
      continue;
    }
    result line;
    line.bench = one.bench;
    line.contender = each.name;
    line.case_name = one.case_name;
    line.metric = one.metric;
    line.unit = one.unit;
    line.value = summarize(each.values(one.metric));
    line.extra = one.extra;
    if (one.with_ratios) {
      line.of = first.name;
      line.ratio = line.value.median / summarize(first.values(one.metric)).median;
    }
    rows.add({each.name, number(line.value.median), range(line.value), one.with_ratios ? number(line.ratio) : ""});
    to.add(line);
  }
  rows.print();
  fmt::print("\n");
  return good;
}

void add_breakdown(const std::vector<outcome>& outcomes, std::vector<std::string>& to) {
  for (const outcome& of : outcomes)
    for (const auto& run : of.runs)
      for (const auto& [key, value] : run)
        if (key.find('-') != std::string::npos && key.find('/') == std::string::npos &&
            std::ranges::find(to, key) == to.end())
          to.push_back(key);
}

void show_types(const shown_case& one, const std::vector<outcome>& outcomes, const json_lines& to) {
  const std::string objects = "stabilized-objects/", bytes = "stabilized-bytes/";
  for (const outcome& of : outcomes) {
    if (of.runs.empty()) continue;
    table rows{{"type", "objects", "bytes"}};
    bool any = false;
    for (const auto& [key, value] : of.runs.front()) {
      if (!key.starts_with(objects)) continue;
      any = true;
      const std::string type = key.substr(objects.size());
      rows.add({type, number(value), number(of.runs.front().at(bytes + type))});
      for (const auto& metric : {key, bytes + type}) to.add(line_for(one, of, metric, metric));
    }
    if (!any) continue;
    fmt::print("{}: what became persistent in {} in all iterations, by type\n", one.name, of.name);
    rows.print();
    fmt::print("\n");
  }
}

bool is_wanted(const std::string& name, const std::vector<std::string>& wanted) {
  return wanted.empty() || std::ranges::any_of(wanted, [&](const std::string& one) {
           return name == one || name.starts_with(one + "-");
         });
}

nlohmann::json describe(const machine_report& machine, bool quick) {
  return {{"kernel", machine.kernel},
          {"file_system", machine.file_system},
          {"huge_pages", machine.huge_pages},
          {"quick", quick}};
}

}  // namespace tenure::bench
