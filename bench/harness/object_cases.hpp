// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of objects (OO1, OO7) share: databases that are made once and opened cold in a fresh process for
// every run, and cases whose figures are shown and recorded.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/machine.hpp"
#include "harness/report.hpp"
#include "harness/rounds.hpp"

namespace tenure::bench {

// A contender's databases, below one directory.
class made_databases {
 public:
  explicit made_databases(std::filesystem::path parent) : parent_(std::move(parent)) {}
  // The directory of the contender's database `which`. When first asked for, it is made empty and child(arguments) is
  // run, with the environment variable set to 1 unless its name is empty. Throws, again at each call, if that failed.
  const std::filesystem::path& get(const std::string& contender, const std::string& which,
                                   std::vector<std::string> create_arguments, const char* environment);
  // Removes them all.
  void clear();

 private:
  struct made {
    std::filesystem::path directory;
    std::string failure;
  };
  std::filesystem::path parent_;
  std::map<std::string, made> known_;
};

// Drops all files below from the page cache. The share of pages that stayed in the largest file.
double drop_directory_from_cache(const std::filesystem::path& directory);

// One case: a metric of some rounds.
struct shown_case {
  std::string bench, name, what;
  std::string key;          // of the measurements
  bool with_ratios = true;  // against the baseline "plain"
  nlohmann::json extra = nlohmann::json::object();
  std::map<std::string, std::string> settings;  // by contender
  // Others of the measurements, as metrics of the same case.
  std::vector<std::string> more = {};
};
// Prints the table and adds lines; false, and says so, if an entrant failed.
bool show_case(const shown_case& one, const std::vector<outcome>& outcomes, const json_lines& to);

// One metric of some rounds, whose ratios are those of the medians, to the first entrant.
struct shown_metric {
  std::string bench, case_name, what, metric, unit;
  bool with_ratios = true;
  nlohmann::json extra = nlohmann::json::object();
};
// Prints the table and adds lines; false, and says so, if an entrant failed.
bool show_metric(const shown_metric& one, const std::vector<outcome>& outcomes, const json_lines& to);

// Adds the names of what systems tell of themselves (worlds/breakdown.hpp): those with a dash.
void add_breakdown(const std::vector<outcome>& outcomes, std::vector<std::string>& to);

// Prints what became persistent, by type, for those that tell it.
void show_types(const shown_case& one, const std::vector<outcome>& outcomes, const json_lines& to);

// Whether `name` was asked for: one of `wanted`, or the beginning of it up to a dash; everything if none are named.
[[nodiscard]] bool is_wanted(const std::string& name, const std::vector<std::string>& wanted);

[[nodiscard]] nlohmann::json describe(const machine_report& machine, bool quick);

}  // namespace tenure::bench
