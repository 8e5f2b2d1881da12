// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_list: the linked list of the pobj paper, section 6.1: saved durably, found and walked in another process, changed
// one node at a time. Each step is a process of its own, next to the raw one.
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "command_line.hpp"
#include "harness/child.hpp"
#include "harness/program.hpp"
#include "harness/rounds.hpp"
#include "list/contender.hpp"

namespace {

using namespace tenure::bench;
using list::contender;

struct program_options : common_options {
  std::vector<std::uint64_t> nodes{1000, 10'000, 100'000, 1'000'000};
  std::vector<std::string> contenders;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::uint64_t expected_sum(std::uint64_t nodes) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < nodes; ++i) sum = sum * 31 + i;
  return sum;
}

// --- A process of its own ---

void run_child(const std::string& task, contender& who, std::uint64_t nodes) {
  const raised_priority priority;
  nlohmann::json said;
  if (task == "save") {
    who.prepare(nodes);
    who.build(nodes);
    const auto start = std::chrono::steady_clock::now();
    who.save(nodes);
    said["seconds"] = seconds_since(start);
    if (const auto bytes = who.bytes_saved()) said["bytes"] = *bytes;
    who.close();
  } else {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t sum = who.open_and_walk();
    said["seconds"] = seconds_since(start);
    if (sum != expected_sum(nodes)) throw std::runtime_error("wrong answer: the list is not what was saved");
    if (task == "update") {
      who.before_updates();
      const std::uint64_t updates = who.setting().find("all anew") != std::string::npos ? 6 : 300;
      const auto begun = std::chrono::steady_clock::now();
      for (std::uint64_t i = 0; i < updates; ++i) {
        const std::uint64_t index = i / 2 * 7919 % nodes;  // each twice: the list stays as it was
        who.update(index, static_cast<std::int64_t>(i % 2 == 0 ? ~index : index));
      }
      said["seconds"] = seconds_since(begun) / static_cast<double>(updates);
    }
    who.close();
  }
  tell_parent(said);
}

// --- The program ---

struct step {
  std::string name, what;
};
const step steps[] = {
    {"save", "saving the list that is in memory, durable; baseline: write and sync of the bytes that tenure logs"},
    {"walk",
     "opening, in a fresh process with a warm page cache, to the end of the first walk; baseline: a mapped image"},
    {"update", "changing one node, durable; baseline: one block written and synced"}};

bool run_size(const program_options& how, std::uint64_t nodes) {
  bool good = true;
  const auto run = [&](const std::string& task, const std::string& name) {
    const auto directory = how.directory / name;
    if (task == "save") std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    return tenure::bench::run_child(
        {"--child", task, "--contenders", name, "--nodes", std::to_string(nodes), "--dir", directory.string()});
  };
  for (const step& one : steps) {
    const std::string case_name = fmt::format("{}-{}", one.name, nodes);
    fmt::print("{}: {} nodes; {}\n", case_name, nodes, one.what);
    const auto measure = [&](const std::string& name) -> measurement {
      const auto said = run(one.name, name);
      measurement m{{"milliseconds", said.at("seconds").get<double>() * 1e3}};
      if (said.contains("bytes")) m["bytes"] = said.at("bytes");
      return m;
    };
    std::vector<entrant> entrants;
    for (const auto& kind : list::all_contenders()) {
      if (kind.bare ||
          (!how.contenders.empty() && std::ranges::find(how.contenders, kind.name) == how.contenders.end()))
        continue;
      if (kind.make(how.directory) == nullptr) {
        fmt::print("  {}: not built\n", kind.name);
        continue;
      }
      entrants.push_back({kind.name, [&measure, name = kind.name] { return measure(name); }, "raw"});
    }
    round_options rounds;
    rounds.repeat = how.repeat;
    rounds.compared = "milliseconds";
    const auto outcomes = run_rounds(entrants, {{"raw", [&] { return measure("raw"); }}}, rounds);
    table rows{{"contender", "ms", "[min .. max]", "runs", "ratio", "[min .. max]"}};
    for (const outcome& of : outcomes) {
      if (!of.failure.empty()) {
        fmt::print("  {} FAILED: {}\n", of.name, of.failure);
        good = false;
        continue;
      }
      result line;
      line.bench = "list";
      line.contender = of.name;
      line.case_name = case_name;
      line.metric = "milliseconds";
      line.unit = "ms";
      line.value = summarize(of.values("milliseconds"));
      line.extra = {{"nodes", nodes},
                    {"kernel", how.machine.kernel},
                    {"file_system", how.machine.file_system},
                    {"huge_pages", how.machine.huge_pages},
                    {"quick", how.quick},
                    {"discarded", of.discarded}};
      for (const auto& kind : list::all_contenders())
        if (kind.name == of.name) line.extra["setting"] = kind.make(how.directory)->setting();
      std::vector<std::string> row{of.name, number(line.value.median), range(line.value),
                                   fmt::format("{}", line.value.n)};
      if (const auto ratios = of.ratios("milliseconds"); !ratios.empty()) {
        const summary ratio = summarize(ratios);
        line.of = "raw";
        line.ratio = ratio.median;
        line.extra["ratio_min"] = ratio.min;
        line.extra["ratio_max"] = ratio.max;
        row.push_back(number(ratio.median));
        row.push_back(range(ratio));
      }
      rows.add(row);
      how.json.add(line);
    }
    rows.print();
    fmt::print("\n");
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  how.repeat = 7;
  std::string child;
  tenure::tools::command_line app{"A linked list: saved, walked, updated"};
  app.option("--nodes", how.nodes, "lengths of the list").separated_by_commas().shows_default();
  app.option("--contenders", how.contenders, "only these").separated_by_commas();
  add_common_options(app, how);
  app.option("--child", child, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  return run_program("bench_list", [&] {
    if (!child.empty()) {
      for (const auto& kind : list::all_contenders())
        if (kind.name == how.contenders.at(0)) run_child(child, *kind.make(how.directory), how.nodes.at(0));
      return true;
    }
    if (how.quick) {
      how.nodes = {10'000};
      how.repeat = 3;
    }
    const benchmark_run running("bench_list", how);
    bool good = true;
    for (const std::uint64_t nodes : how.nodes) good = run_size(how, nodes) && good;
    return good;
  });
}
