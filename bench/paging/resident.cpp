// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A database that has four times as many bytes as the process has memory, next to a process that has enough: single pages in
// random order, a walk through all, and walks through a tenth.
#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/child.hpp"
#include "harness/memory_limit.hpp"
#include "paging/chain.hpp"
#include "paging/figures.hpp"

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

// Reads so many pages between two objects, drawn at random. Returns the microseconds of each.
double read_scattered(const void* first, const void* last, std::uint64_t pages) {
  const auto* const begin = static_cast<const volatile std::byte*>(first);
  const auto bytes =
      static_cast<std::uint64_t>(static_cast<const std::byte*>(last) - static_cast<const std::byte*>(first));
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t n = 0, draw = 1; n < pages; ++n) {
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    (void)begin[(draw >> 11) % bytes];
  }
  return milliseconds_since(start) * 1e3 / static_cast<double>(pages);
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
  if (what.task == "resident-scattered") {
    tell_parent({{"scattered_us", read_scattered(rest->first, rest->last, what.size / 4096 / 64)}});
    opened.close();
    return;
  }
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
  tell_parent(said);
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
    measurement all;
    for (const char* task : {"resident-scattered", "resident"}) {
      for (const auto& file : files_in(directory)) (void)drop_from_cache(file);
      all.merge(run(task, group).get<measurement>());
    }
    return all;
  };
  (void)run("resident-build", "");
  round_options rounds;
  rounds.repeat = how.repeat;
  rounds.compared = "walk_ms";
  const auto outcomes = run_rounds({{"limited", [&] { return measure(limit->group()); }, "unlimited"}},
                                   {{"unlimited", [&] { return measure(""); }}}, rounds);
  bool good = true;
  table rows{{"memory", "walk ms", "[min .. max]", "ratio", "[min .. max]", "major faults", "[min .. max]",
              "whole, cold: ms", "[min .. max]", "ratio", "[min .. max]", "a page in random order, cold: us",
              "[min .. max]", "ratio", "[min .. max]"}};
  for (const outcome& of : outcomes) {
    if (!of.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", of.name, of.failure);
      good = false;
      continue;
    }
    const std::string contender = "tenure-" + of.name;
    std::vector<std::string> row{of.name};
    report(how, {contender, name, "walk_ms", "ms", true}, of, row);
    report(how, {contender, name, "faults", "1"}, of, row);
    report(how, {contender, name, "whole_ms", "ms", true}, of, row);
    report(how, {contender, name, "scattered_us", "us", true}, of, row);
    rows.add(row);
  }
  rows.print();
  fmt::print("\n");
  std::filesystem::remove_all(directory);
  return good;
}

}  // namespace tenure::bench::paging
