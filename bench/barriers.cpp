// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_barriers: small transactions on a large structure, by every way in which a system can learn what was written
// [Hosking §5]. After a pass that has written to every page, as in a program that has run for a while.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "barriers/contender.hpp"
#include "command_line.hpp"
#include "harness/instrumentation.hpp"
#include "harness/program.hpp"
#include "harness/report.hpp"
#include "harness/rounds.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::barriers;

struct program_options : common_options {
  std::vector<std::string> contenders, cases;
  std::uint32_t records = 245'760;  // 30 MiB
  unsigned transactions = 20'000;
};

struct transaction_case {
  std::string name, what;
  bool durable;
  // The updates of transaction n.
  void (*updates)(std::vector<update>& to, std::uint64_t n, std::uint32_t records);
};

// The same numbers in each run.
std::uint64_t scrambled(std::uint64_t n) {
  n = (n + 1) * 0x9e3779b97f4a7c15u;
  n = (n ^ n >> 32) * 0xd6e8feb86659fd93u;
  return n ^ n >> 32;
}

void scattered(std::vector<update>& to, std::uint64_t n, std::uint32_t records) {
  to.clear();
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::uint64_t drawn = scrambled(4 * n + i);
    to.push_back({static_cast<std::uint32_t>(drawn % records), static_cast<std::uint32_t>(drawn >> 60), n + 1});
  }
}
void same_pages(std::vector<update>& to, std::uint64_t n, std::uint32_t records) {
  to.clear();
  for (std::uint32_t i = 0; i < 8; ++i) to.push_back({records / 8 * i, static_cast<std::uint32_t>(n % 16), n + 1});
}

const std::vector<transaction_case> all_cases{
    {"scattered", "a word of each of four random records, lazy", false, scattered},
    {"hot", "a word on each of eight pages, always the same, lazy", false, same_pages},
    {"scattered-durable", "a word of each of four random records, durable", true, scattered},
};

// Every page is written once: a word of every 16th record.
void write_everywhere(contender& who, std::uint32_t records) {
  std::vector<update> updates;
  for (std::uint32_t n = 0; n < records; n += 16) {
    updates.push_back({n, 0, 1});
    if (updates.size() == 1000 || n + 16 >= records) {
      who.transact(updates);
      updates.clear();
    }
  }
  who.flush();
}

// The processor time of this thread, in microseconds: what a transaction costs where other programs run, too.
double processor_time() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

measurement run_once(const program_options& how, const contender_kind& kind, const transaction_case& of) {
  const scratch_directory scratch{how.directory, kind.name};
  const auto who = kind.make();
  who->create({scratch.path(), how.records, of.durable});
  write_everywhere(*who, how.records);
  const std::uint64_t most = of.durable ? std::max(how.transactions / 100, 20u) : how.transactions;
  std::vector<std::vector<update>> all(most);
  for (std::uint64_t n = 0; n < most; ++n) of.updates(all[n], n, how.records);
  using clock = std::chrono::steady_clock;
  // Some compare all that is open, which takes milliseconds.
  const auto run = [&](std::uint64_t count, std::chrono::milliseconds at_most) {
    const auto end = clock::now() + at_most;
    std::uint64_t n = 0;
    while (n < count) {
      who->transact(all[n]);
      if (++n % 32 == 0 && clock::now() > end) break;
    }
    return n;
  };
  (void)run(most / 10, std::chrono::milliseconds(200));

  start_instrumentation();
  const auto start = clock::now();
  const double cpu = processor_time();
  const std::uint64_t count = run(most, std::chrono::seconds(2));
  const double cpu_took = processor_time() - cpu;
  const std::chrono::duration<double, std::micro> took = clock::now() - start;
  stop_instrumentation();
  for (std::uint64_t n = count - std::min<std::uint64_t>(count, 50); n < count; ++n)
    for (const update& u : all[n])
      if (who->word(u.record, u.word) < u.value) throw std::runtime_error("an update is lost");
  const auto each = static_cast<double>(count);
  return {{"microseconds", took.count() / each}, {"processor", cpu_took / each}};
}

bool run_case(const program_options& how, const transaction_case& of) {
  fmt::print("{}: {}; microseconds a transaction\n", of.name, of.what);
  bool good = true;
  std::vector<entrant> entrants;
  for (const contender_kind& kind : all_contenders()) {
    if (!how.contenders.empty() && std::ranges::find(how.contenders, kind.name) == how.contenders.end()) continue;
    if (kind.make() == nullptr) {
      fmt::print("  {}: not built\n", kind.name);
      continue;
    }
    entrants.push_back({kind.name, [&] { return run_once(how, kind, of); }, ""});
  }
  const std::vector<outcome> outcomes = run_rounds(entrants, {}, {.repeat = how.repeat, .compared = "microseconds"});
  double base = 0;
  if (!outcomes.empty()) base = summarize(outcomes.front().values("microseconds")).median;
  table rows{{"contender", "µs", "[min .. max]", "× the first", "processor", "setting"}};
  for (const outcome& each : outcomes) {
    if (!each.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", each.name, each.failure);
      good = false;
      continue;
    }
    const auto kind = std::ranges::find(all_contenders(), each.name, &contender_kind::name);
    result line;
    line.bench = "barriers";
    line.contender = each.name;
    line.case_name = of.name;
    line.metric = "microseconds";
    line.unit = "µs";
    line.value = summarize(each.values("microseconds"));
    line.of = outcomes.front().name;
    line.ratio = base == 0 ? 0 : line.value.median / base;
    line.extra = {{"kernel", how.machine.kernel},
                  {"file_system", how.machine.file_system},
                  {"quick", how.quick},
                  {"setting", kind->make()->setting()},
                  {"records", how.records}};
    rows.add({each.name, number(line.value.median), range(line.value), number(line.ratio),
              number(summarize(each.values("processor")).median), kind->make()->setting()});
    how.json.add(line);
    line.metric = "processor";
    line.value = summarize(each.values("processor"));
    line.of = "";
    line.ratio = 0;
    how.json.add(line);
  }
  rows.print();
  fmt::print("\n");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  tenure::tools::command_line app{"Small transactions, by every way to learn what was written"};
  app.option("--contenders", how.contenders, "only these").separated_by_commas();
  app.option("--cases", how.cases, "only these: scattered, hot, scattered-durable").separated_by_commas();
  app.option("--records", how.records, "of 128 bytes").shows_default();
  app.option("--transactions", how.transactions, "measured in a run; a hundredth of it if they are durable")
      .shows_default();
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 3, how.transactions = std::min(how.transactions, 2'000u);
  return run_program("bench_barriers", [&] {
    const raised_priority priority;
    const benchmark_run running("bench_barriers", how);
    bool good = true;
    for (const transaction_case& of : all_cases)
      if (how.cases.empty() || std::ranges::find(how.cases, of.name) != how.cases.end())
        good = run_case(how, of) && good;
    return good;
  });
}
