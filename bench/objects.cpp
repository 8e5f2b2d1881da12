// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_objects: figures 7 to 9 of the pobj paper: what it costs to make an object and to write to one, durably, by the
// number of operations in a transaction; and to write to one word of a large object. Figures 5 and 6 are bench_list's.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "command_line.hpp"
#include "harness/program.hpp"
#include "harness/rounds.hpp"
#include "objects/contender.hpp"

namespace {

using namespace tenure::bench;
using objects::contender;

struct program_options : common_options {
  std::vector<unsigned> operations{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
  std::vector<std::size_t> sizes{64, 1 << 10, 16 << 10, 128 << 10, 1 << 20};
  std::vector<std::string> contenders;
};

// Runs transactions of so many operations until there were enough of them, and returns microseconds
// for each operation.
template <class Prepare, class Operation>
measurement time_operations(contender& who, const std::filesystem::path& scratch, unsigned operations,
                            Prepare&& prepare, Operation&& operation) {
  constexpr unsigned enough = 400, most_transactions = 60;
  const unsigned transactions = std::clamp(enough / operations, 3u, most_transactions);
  std::filesystem::remove_all(scratch);
  std::filesystem::create_directories(scratch);
  who.open(scratch);
  who.begin();
  prepare();
  who.commit();
  const auto start = std::chrono::steady_clock::now();
  for (unsigned t = 0; t < transactions; ++t) {
    who.begin();
    for (unsigned n = 0; n < operations; ++n) operation(t * operations + n);
    who.commit();
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  who.close();
  return {{"microseconds", spent.count() / transactions / operations}};
}

struct figure_case {
  std::string name, what;
  bool writes;  // else it does not matter how a write is reflected
  std::function<measurement(contender&, const std::filesystem::path&)> run;
};

std::vector<figure_case> all_cases(const program_options& how) {
  std::vector<figure_case> cases;
  for (const unsigned operations : how.operations)
    cases.push_back({fmt::format("allocate-{}", operations),
                     fmt::format("an object of 16 bytes made; {} in a durable transaction", operations), false,
                     [operations](contender& who, const std::filesystem::path& scratch) {
                       return time_operations(
                           who, scratch, operations, [] {}, [&](unsigned) { who.allocate(); });
                     }});
  for (const unsigned operations : how.operations)
    cases.push_back({fmt::format("write-{}", operations),
                     fmt::format("a word of an object of 64 bytes written; {} in a durable transaction", operations),
                     true, [operations](contender& who, const std::filesystem::path& scratch) {
                       return time_operations(
                           who, scratch, operations, [&] { who.prepare(64); },
                           [&](unsigned n) { who.write(n % 8 * 8, n + 1); });
                     }});
  for (const std::size_t size : how.sizes)
    cases.push_back({fmt::format("partial-{}", size),
                     fmt::format("one word of an object of {} bytes written; 100 in a durable transaction", size), true,
                     [size](contender& who, const std::filesystem::path& scratch) {
                       return time_operations(
                           who, scratch, 100, [&] { who.prepare(size); },
                           [&](unsigned n) { who.write(n * std::size_t{8 * 997} % size, n + 1); });
                     }});
  return cases;
}

bool run_case(const program_options& how, const figure_case& one) {
  fmt::print("{}: {}; microseconds each\n", one.name, one.what);
  bool good = true;
  std::vector<entrant> entrants;
  for (const auto& kind : objects::all_contenders()) {
    if (!how.contenders.empty() && std::ranges::find(how.contenders, kind.name) == how.contenders.end()) continue;
    if (!one.writes && kind.only_for_writes) continue;
    if (kind.make() == nullptr) {
      fmt::print("  {}: not built\n", kind.name);
      continue;
    }
    entrants.push_back({kind.name, [&] { return one.run(*kind.make(), how.directory / kind.name); }, ""});
  }
  round_options rounds;
  rounds.repeat = how.repeat;
  rounds.compared = "microseconds";
  table rows{{"contender", "µs", "[min .. max]", "runs"}};
  for (const outcome& of : run_rounds(entrants, {}, rounds)) {
    if (!of.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", of.name, of.failure);
      good = false;
      continue;
    }
    result line;
    line.bench = "objects";
    line.contender = of.name;
    line.case_name = one.name;
    line.metric = "microseconds";
    line.unit = "µs";
    line.value = summarize(of.values("microseconds"));
    line.extra = {{"kernel", how.machine.kernel}, {"file_system", how.machine.file_system}, {"quick", how.quick}};
    for (const auto& kind : objects::all_contenders())
      if (kind.name == of.name) line.extra["setting"] = kind.make()->setting();
    rows.add({of.name, number(line.value.median), range(line.value), fmt::format("{}", line.value.n)});
    how.json.add(line);
  }
  rows.print();
  fmt::print("\n");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  tenure::tools::command_line app{"Making objects and writing to them, by operations in a transaction"};
  app.option("--operations", how.operations, "in a transaction").separated_by_commas().shows_default();
  app.option("--sizes", how.sizes, "of the large object, bytes; multiples of 8").separated_by_commas().shows_default();
  app.option("--contenders", how.contenders, "only these").separated_by_commas();
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) {
    how.operations = {1, 100};
    how.sizes = {64, 1 << 20};
    how.repeat = 3;
  }
  return run_program("bench_objects", [&] {
    const raised_priority priority;
    const benchmark_run running("bench_objects", how);
    bool good = true;
    for (const figure_case& one : all_cases(how)) good = run_case(how, one) && good;
    return good;
  });
}
