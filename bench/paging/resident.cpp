// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Walks through a tenth of a database that has four times as many bytes as the process has memory, next to a process that
// has enough.
#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/child.hpp"
#include "harness/memory_limit.hpp"
#include "harness/rounds.hpp"
#include "paging/chain.hpp"
#include "paging/options.hpp"

namespace tenure::bench::paging {
namespace {

using item = link<120>;  // 128 bytes with its header
constexpr std::uint64_t item_bytes = 128;

void require_sum(std::uint64_t sum, std::uint64_t expected) {
  if (sum != expected) throw std::runtime_error("wrong answer: the list is not what was saved");
}

long major_faults() {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_majflt;
}

}  // namespace

void run_resident_child(const child_options& what, const std::filesystem::path& directory) {
  const std::uint64_t items = what.size / item_bytes, tenth = items / 10;
  if (what.task == "resident-build") {
    store built{store_in(directory)};
    append(built, built.root<chain<item>>("tenth"), tenth);
    append(built, built.root<chain<item>>("rest"), items - tenth);
    built.close();
    fmt::print("{{}}\n");
    return;
  }
  constexpr unsigned to_warm_up = 10, walks = 21;
  const std::uint64_t expected_tenth = expected_sum(tenth), expected_rest = expected_sum(items - tenth);
  if (!what.group.empty()) enter_memory_limit(what.group);
  const raised_priority priority;
  store opened{store_in(directory)};
  const auto* const walked = opened.find_root<chain<item>>("tenth");
  const auto* const rest = opened.find_root<chain<item>>("rest");
  if (walked == nullptr || rest == nullptr) throw std::runtime_error("wrong answer: there is no list");
  auto start = std::chrono::steady_clock::now();
  require_sum(walk(*walked), expected_tenth);
  require_sum(walk(*rest), expected_rest);
  const double whole = milliseconds_since(start);
  for (unsigned i = 0; i < to_warm_up; ++i) require_sum(walk(*walked), expected_tenth);
  const long before = major_faults();
  std::vector<double> times;
  for (unsigned i = 0; i < walks; ++i) {
    start = std::chrono::steady_clock::now();
    require_sum(walk(*walked), expected_tenth);
    times.push_back(milliseconds_since(start));
  }
  const nlohmann::json said{{"walk_ms", summarize(times).median},
                            {"whole_ms", whole},
                            {"faults", static_cast<double>(major_faults() - before) / walks}};
  opened.close();
  fmt::print("{}\n", said.dump());
}

bool run_resident(const program_options& how) {
  const std::string name = "resident-tenth";
  if (!how.wants(name)) return true;
  const std::uint64_t size = 4 * how.memory;
  fmt::print(
      "{}: walks through a tenth of {} MiB of objects in {} MiB of memory (control group); baseline: the same "
      "without the limit; aim: 1.1 of it\n",
      name, size >> 20, how.memory >> 20);
  std::unique_ptr<memory_limit> limit;
  try {
    limit = std::make_unique<memory_limit>(how.memory);
  } catch (const std::exception& e) {
    fmt::print("  not run: no memory control group: {}\n\n", e.what());
    return true;
  }
  const auto directory = how.directory / name;
  std::filesystem::create_directories(directory);
  const auto run = [&](const std::string& task, const std::string& group) {
    return run_child({"--child", task, "--group", group, "--size", std::to_string(size), "--dir", directory.string()});
  };
  const auto measure = [&](const std::string& group) -> measurement {
    for (const auto& file : files_in(directory)) (void)drop_from_cache(file);
    return run("resident", group).get<measurement>();
  };
  try {
    (void)run("resident-build", "");
  } catch (const std::exception& e) {
    fmt::print("  FAILED: {}\n", e.what());
    return false;
  }
  round_options rounds;
  rounds.repeat = how.repeat;
  rounds.compared = "walk_ms";
  const auto outcomes = run_rounds({{"limited", [&] { return measure(limit->group()); }, "unlimited"}},
                                   {{"unlimited", [&] { return measure(""); }}}, rounds);
  bool good = true;
  table rows{{"memory", "walk ms", "[min .. max]", "ratio", "[min .. max]", "major faults", "whole, cold: ms",
              "[min .. max]", "ratio", "[min .. max]"}};
  for (const outcome& of : outcomes) {
    if (!of.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", of.name, of.failure);
      good = false;
      continue;
    }
    std::vector<std::string> row{of.name};
    const auto report = [&](const std::string& metric, const std::string& unit, bool with_range) {
      result line = how.line(name, metric, unit, of.values(metric));
      line.contender = "tenure-" + of.name;
      line.extra["memory"] = how.memory;
      row.push_back(number(line.value.median));
      if (with_range) {
        row.push_back(range(line.value));
        const auto ratios = of.ratios(metric);
        const summary ratio = summarize(ratios);
        row.push_back(ratios.empty() ? "" : number(ratio.median));
        row.push_back(ratios.empty() ? "" : range(ratio));
        if (!ratios.empty()) {
          line.of = "tenure-" + of.baseline;
          line.ratio = ratio.median;
          line.extra["ratio_min"] = ratio.min;
          line.extra["ratio_max"] = ratio.max;
          line.extra["discarded"] = of.discarded;
        }
      }
      how.json.add(line);
    };
    report("walk_ms", "ms", true);
    report("faults", "1", false);
    report("whole_ms", "ms", true);
    rows.add(row);
  }
  rows.print();
  fmt::print("\n");
  std::filesystem::remove_all(directory);
  return good;
}

}  // namespace tenure::bench::paging
