// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_barriers: small transactions on a large structure, by every way in which a system can learn what was written
// [Hosking §5]. After a pass that has written to every page, as in a program that has run for a while.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
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
  bool laboratory = false;
  std::uint32_t records = 245'760;  // 30 MiB
  unsigned transactions = 20'000;
};

struct transaction_case {
  std::string name, what;
  bool durable;
  // The updates of transaction n.
  void (*updates)(std::vector<update>& to, std::uint64_t n, std::uint32_t records);
  unsigned share = 1;       // of the transactions of a run that the options say
  unsigned threads = 1;     // take turns; transactions of different ones have different records
  bool laboratory = false;  // not among those that are run if nothing is said
};

// The same numbers in each run.
std::uint64_t scrambled(std::uint64_t n) {
  n = (n + 1) * 0x9e3779b97f4a7c15u;
  n = (n ^ n >> 32) * 0xd6e8feb86659fd93u;
  return n ^ n >> 32;
}

template <std::uint64_t Words>
void scattered(std::vector<update>& to, std::uint64_t n, std::uint32_t records) {
  to.clear();
  for (std::uint64_t i = 0; i < Words; ++i) {
    const std::uint64_t drawn = scrambled(Words * n + i);
    to.push_back({static_cast<std::uint32_t>(drawn % records), static_cast<std::uint32_t>(drawn >> 60), n + 1});
  }
}
constexpr unsigned many_threads = 8;
void scattered_by_threads(std::vector<update>& to, std::uint64_t n, std::uint32_t records) {
  scattered<4>(to, n, records / many_threads);
  for (update& u : to) u.record = u.record * many_threads + static_cast<std::uint32_t>(n % many_threads);
}
// A hundred records in a row, behind those of the transaction before.
void in_order(std::vector<update>& to, std::uint64_t n, std::uint32_t records) {
  to.clear();
  constexpr std::uint32_t filled = 100;
  for (std::uint32_t i = 0; i < filled; ++i)
    for (std::uint32_t word = 0; word < 16; ++word)
      to.push_back({static_cast<std::uint32_t>((n * filled + i) % records), word, n + 1});
}
void same_pages(std::vector<update>& to, std::uint64_t n, std::uint32_t records) {
  to.clear();
  for (std::uint32_t i = 0; i < 8; ++i) to.push_back({records / 8 * i, static_cast<std::uint32_t>(n % 16), n + 1});
}

const std::vector<transaction_case> all_cases{
    {"scattered", "a word of each of four random records, lazy", false, scattered<4>},
    {"hot", "a word on each of eight pages, always the same, lazy", false, same_pages},
    {"scattered-durable", "a word of each of four random records, durable", true, scattered<4>, 100},
    {"scattered-durable-8", "the same by eight threads", true, scattered_by_threads, 10, many_threads},
    {"word", "a word of a random record, lazy", false, scattered<1>, 1, 1, true},
    {"many", "a word of each of 1000 random records, lazy", false, scattered<1000>, 100, 1, true},
    {"fill", "all words of 100 records in a row, lazy", false, in_order, 20, 1, true},
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

// The processor time of this thread, or of all, in microseconds: what a transaction costs where other programs run, too.
double processor_time(unsigned threads) {
  timespec t{};
  ::clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

// Transactions from..to, every `step`th; those that were made when the time is over.
std::size_t transact(contender& who, const std::vector<std::vector<update>>& all, std::size_t from, std::size_t to,
                     std::size_t step, std::chrono::milliseconds at_most) {
  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + at_most;
  std::size_t n = from, made = 0;
  for (; n < to; n += step) {
    who.transact(all[n]);
    if (++made % 32 == 0 && clock::now() > end) break;  // some compare all that is open, which takes milliseconds
  }
  return made;
}
// The same by several threads, which take turns.
std::vector<std::size_t> transact_by(unsigned threads, contender& who, const std::vector<std::vector<update>>& all,
                                     std::size_t from, std::chrono::milliseconds at_most) {
  if (threads == 1) return {transact(who, all, from, all.size(), 1, at_most)};
  std::vector<std::size_t> made(threads);
  std::exception_ptr failure;
  std::mutex failing;
  {
    std::vector<std::jthread> running;
    for (unsigned t = 0; t < threads; ++t)
      running.emplace_back([&, t] {
        try {
          made[t] = transact(who, all, from + t, all.size(), threads, at_most);
        } catch (...) {
          const std::scoped_lock lock(failing);
          failure = std::current_exception();
        }
      });
  }
  if (failure) std::rethrow_exception(failure);
  return made;
}

measurement run_once(const program_options& how, const contender_kind& kind, const transaction_case& of) {
  const scratch_directory scratch{how.directory, kind.name};
  const auto who = kind.make();
  who->create({scratch.path(), how.records, of.durable});
  write_everywhere(*who, how.records);
  const std::uint64_t most = std::max<std::uint64_t>(how.transactions / of.share, 20) / of.threads * of.threads;
  const std::uint64_t before = std::max<std::uint64_t>(most / 10, 2) / of.threads * of.threads;
  std::vector<std::vector<update>> all(before + most);
  for (std::uint64_t n = 0; n < all.size(); ++n) of.updates(all[n], n, how.records);
  (void)transact(*who, all, 0, before, 1, std::chrono::milliseconds(200));

  start_instrumentation();
  const auto start = std::chrono::steady_clock::now();
  const double cpu = processor_time(of.threads);
  const std::vector<std::size_t> made = transact_by(of.threads, *who, all, before, std::chrono::seconds(2));
  const double cpu_took = processor_time(of.threads) - cpu;
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  stop_instrumentation();
  double count = 0;
  for (std::size_t t = 0; t < made.size(); ++t) {
    count += static_cast<double>(made[t]);
    for (std::size_t n = made[t] - std::min<std::size_t>(made[t], 50); n < made[t]; ++n)
      for (const update& u : all[before + t + n * of.threads])
        if (who->word(u.record, u.word) < u.value) throw std::runtime_error("an update is lost");
  }
  return {{"microseconds", took.count() / count}, {"processor", cpu_took / count}};
}

// Those that are named, or all; those of the laboratory if these are wanted, too.
bool is_asked_for(const std::string& name, const std::vector<std::string>& named, bool laboratory,
                  const program_options& how) {
  return named.empty() ? !laboratory || how.laboratory : std::ranges::find(named, name) != named.end();
}

bool run_case(const program_options& how, const transaction_case& of) {
  fmt::print("{}: {}; microseconds a transaction\n", of.name, of.what);
  bool good = true;
  std::vector<entrant> entrants;
  for (const contender_kind& kind : all_contenders()) {
    if (!is_asked_for(kind.name, how.contenders, kind.laboratory, how)) continue;
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
  app.option("--cases", how.cases, "only these: scattered, hot, scattered-durable, …").separated_by_commas();
  app.flag("--laboratory", how.laboratory, "all cases, and cards of all sizes, announced by hand and compiled in");
  app.option("--records", how.records, "of 128 bytes").shows_default();
  app.option("--transactions", how.transactions, "measured in a run; fewer if they are durable or long")
      .shows_default();
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 3, how.transactions = std::min(how.transactions, 2'000u);
  return run_program("bench_barriers", [&] {
    const raised_priority priority;
    const benchmark_run running("bench_barriers", how);
    bool good = true;
    for (const transaction_case& of : all_cases)
      if (is_asked_for(of.name, how.cases, of.laboratory, how)) good = run_case(how, of) && good;
    return good;
  });
}
