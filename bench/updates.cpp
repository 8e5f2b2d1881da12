// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_updates: what an update costs, and what a commit costs for each page that was written, in instructions and in misses of
// the caches, as valgrind's callgrind counts them, and in time: the thesis's Tables 5.8 and 5.9 [Hosking §5.4.2]. Counts are
// repeatable where time is not.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tenure/rvm.hpp>
#include <tenure/tenure.hpp>

#include "command_line.hpp"
#include "harness/callgrind.hpp"
#include "harness/child.hpp"
#include "harness/instrumentation.hpp"
#include "harness/program.hpp"
#include "harness/report.hpp"
#include "harness/rounds.hpp"
#include "stores/list.hpp"
#include "stores/loop.hpp"
#include "worlds/ways.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::stores;

struct program_options : common_options {
  std::vector<std::string> ways;
  std::string child, section;
  unsigned runs = 20;
};

void swap_announced(item* const* all, std::size_t count) {
  for (std::size_t n = 0; n < count; ++n) {
    item& one = *all[n];
    const std::uint64_t a = one.a;
    tenure::change(one.a) = one.b;
    tenure::change(one.b) = a;
  }
}

constexpr std::size_t items = 10'000;

// Where the items are, and how they are written to.
class world {
 public:
  virtual ~world() = default;
  [[nodiscard]] virtual item* const* all() const = 0;
  // Calls f in a transaction, and commits, lazily.
  virtual void transact(const std::function<void()>& f) = 0;
};

class store_world : public world {
 public:
  store_world(const std::filesystem::path& directory, const way& of)
      : store_(directory.string(), of.applied_to(small())) {
    list& stored = store_.root<list>("items");
    store_.transact([&] {
      for (std::size_t n = 0; n < items; ++n) stored.all.push_back(store_.make<item>());
    });
    all_ = stored.all.data();
  }
  item* const* all() const override { return all_; }
  void transact(const std::function<void()>& f) override {
    tenure::transaction tx = store_.begin();
    f();
    tx.commit(tenure::commit_mode::lazy);
  }

 private:
  // Valgrind has no room for the usual reservation, and knows fewer threads than there are.
  static tenure::store_options small() {
    tenure::store_options how;
    how.create.reservation = std::uint64_t{1} << 30;
    how.memory.background = false;
    return how;
  }
  tenure::store store_;
  item* const* all_ = nullptr;
};

class memory_world : public world {
 public:
  memory_world(const std::filesystem::path& directory, tenure::rvm::write_barriers barriers)
      : memory_((directory / "log").string(), {}),
        region_(memory_.map((directory / "segment").string(),
                            {.create_length = std::uint64_t{1} << 20, .barriers = barriers})) {
    auto* const first = reinterpret_cast<item*>(region_.data());
    for (std::size_t n = 0; n < items; ++n) all_.push_back(first + n);
  }
  item* const* all() const override { return all_.data(); }
  void transact(const std::function<void()>& f) override {
    tenure::rvm::transaction tx = memory_.begin(tenure::rvm::restore_mode::no_restore);
    f();
    tx.commit(tenure::rvm::commit_mode::no_flush);
  }

 private:
  tenure::rvm::memory memory_;
  tenure::rvm::region region_;
  std::vector<item*> all_;
};

// Memory that is in no store.
class plain_world : public world {
 public:
  plain_world() {
    for (item& each : of_) all_.push_back(&each);
  }
  item* const* all() const override { return all_.data(); }
  void transact(const std::function<void()>& f) override { f(); }

 private:
  std::vector<item> of_{items};
  std::vector<item*> all_;
};

struct measured_way {
  std::string name, setting;
  void (*swap)(item* const*, std::size_t);
  std::function<std::unique_ptr<world>(const std::filesystem::path&)> make;
};

std::vector<measured_way> all_ways() {
  std::vector<measured_way> all;
  const auto plain = [](const std::filesystem::path&) { return std::make_unique<plain_world>(); };
  all.push_back({"plain", "memory that is in no store", swap_bare, plain});
  all.push_back({"plain-outlined", "the same, compiled with barriers", swap_outlined, plain});
  const auto add = [&](const std::string& name, const way& of, auto* swap, const std::string& how = "") {
    all.push_back({name, how + of.setting, swap,
                   [of](const std::filesystem::path& in) { return std::make_unique<store_world>(in, of); }});
  };
  add("traps", ways::traps, swap_bare);
  add("hot", ways::hot, swap_bare);
  add("copies", ways::copies, swap_bare);
  add("announced", ways::announced, swap_announced);
  add("cards-16", ways::cards_16, swap_announced);
  add("cards-64", ways::cards_64, swap_announced);
  add("cards-256", ways::cards_256, swap_announced);
  add("cards-1024", ways::cards_1024, swap_announced);
  add("cards-4096", ways::cards_4096, swap_announced);
  add("outlined-cards-64", ways::cards_64, swap_outlined, "compiled in, outlined: ");
  all.push_back(
      {"ranges", "recoverable memory, exact ranges, announced", swap_announced, [](const std::filesystem::path& in) {
         return std::make_unique<memory_world>(in, tenure::rvm::write_barriers::announced);
       }});
  return all;
}

const measured_way& way_named(const std::string& name) {
  static const std::vector<measured_way> all = all_ways();
  const auto found = std::ranges::find(all, name, &measured_way::name);
  if (found == all.end()) throw std::invalid_argument("no way is named " + name);
  return *found;
}

// --- What is measured ------------------------------------------------------------------------------------------------

struct section {
  std::string name, what;
  std::size_t pages;  // that a transaction writes to; 0: all, before what is measured
  double units;       // of a run, into which what is counted is divided
};
constexpr int passes = 10;
constexpr std::size_t apart = 249;  // items, of which each has 24 or 32 bytes: more than a page
const std::vector<section> sections{
    {"update", "an update in a transaction that has made it before", 0, 2.0 * passes* items},
    {"page", "a page that a transaction of forty writes a word to, with its part of the commit", 40, passes * 40.0},
    {"transaction", "a transaction that writes a word to one page", 1, passes},
};

// Nanoseconds, of the fastest of the runs.
double run(const measured_way& by, const section& what, const std::filesystem::path& directory, unsigned runs) {
  const std::unique_ptr<world> in = by.make(directory);
  std::vector<item*> few;
  for (std::size_t n = 0; n < std::max<std::size_t>(what.pages, 1); ++n) few.push_back(in->all()[n * apart % items]);
  // Pages are open, and have been looked at as often as they are at first.
  for (int n = 0; n < 4; ++n) in->transact([&] { by.swap(in->all(), items); });
  for (int n = 0; n < 4; ++n) in->transact([&] { by.swap(few.data(), few.size()); });
  using clock = std::chrono::steady_clock;
  std::chrono::duration<double, std::nano> best = std::chrono::hours(1);
  const auto timed = [&](auto&& f) {
    start_instrumentation();
    const auto start = clock::now();
    f();
    best = std::min<std::chrono::duration<double, std::nano>>(best, clock::now() - start);
    stop_instrumentation();
  };
  for (unsigned n = 0; n < runs; ++n) {
    if (what.pages != 0) {
      timed([&] {
        for (int pass = 0; pass < passes; ++pass) in->transact([&] { by.swap(few.data(), few.size()); });
      });
    } else {
      in->transact([&] {
        by.swap(in->all(), items);
        timed([&] {
          for (int pass = 0; pass < passes; ++pass) by.swap(in->all(), items);
        });
      });
    }
  }
  return best.count() / what.units;
}

// --- By valgrind -----------------------------------------------------------------------------------------------------

// For each unit. Nothing if valgrind cannot run it.
std::optional<measurement> count(const measured_way& by, const section& what, const std::filesystem::path& directory) {
  const scratch_directory scratch{directory, "callgrind"};
  return count_instructions(
      {"--child", by.name, "--section", what.name, "--runs", "1", "--dir", scratch.path().string()}, scratch.path(),
      what.units);
}

bool show(const program_options& how, const section& what, bool with_counts) {
  fmt::print("{}: {}\n", what.name, what.what);
  std::vector<entrant> entrants;
  for (const measured_way& each : all_ways()) {
    if (!how.ways.empty() && std::ranges::find(how.ways, each.name) == how.ways.end()) continue;
    // In a process of its own: what is watched is looked for between the lowest and the highest address that ever was.
    const auto measure = [&how, &what, name = each.name] {
      const scratch_directory scratch{how.directory, name};
      const auto said = run_child({"--child", name, "--section", what.name, "--runs", how.quick ? "3" : "20", "--dir",
                                   scratch.path().string()});
      return measurement{{"nanoseconds", said.at("nanoseconds")}};
    };
    entrants.push_back({each.name, measure, ""});
  }
  const std::vector<outcome> outcomes = run_rounds(entrants, {}, {.repeat = how.repeat, .compared = "nanoseconds"});
  table rows{{"way", "ns", "[min .. max]", "instructions", "I1 misses", "D1 misses", "LL misses", "setting"}};
  bool good = true;
  for (const outcome& each : outcomes) {
    if (!each.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", each.name, each.failure);
      good = false;
      continue;
    }
    const measured_way& by = way_named(each.name);
    result line;
    line.bench = "updates";
    line.contender = each.name;
    line.case_name = what.name;
    line.metric = "nanoseconds";
    line.unit = "ns";
    line.value = summarize(each.values("nanoseconds"));
    line.extra = {{"kernel", how.machine.kernel}, {"quick", how.quick}, {"setting", by.setting}};
    how.json.add(line);
    std::vector<std::string> cells{each.name, number(line.value.median), range(line.value)};
    const std::optional<measurement> counted = with_counts ? count(by, what, how.directory) : std::nullopt;
    for (const char* const metric : {"instructions", "instruction_misses", "data_misses", "memory_misses"}) {
      if (!counted) {
        cells.emplace_back("not run");
        continue;
      }
      line.metric = metric;
      line.unit = "";
      line.value = summarize({counted->at(metric)});
      how.json.add(line);
      cells.push_back(number(line.value.median));
    }
    cells.push_back(by.setting);
    rows.add(cells);
  }
  rows.print();
  fmt::print("\n");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  tenure::tools::command_line app{"What an update costs, in time, instructions and misses of the caches"};
  app.option("--ways", how.ways, "only these").separated_by_commas();
  add_common_options(app, how);
  app.option("--child", how.child, "a way, as valgrind runs it").hidden();
  app.option("--section", how.section, "").hidden();
  app.option("--runs", how.runs, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 3;
  const auto work = [&] {
    if (!how.child.empty()) {
      const auto what = std::ranges::find(sections, how.section, &section::name);
      if (what == sections.end()) throw std::invalid_argument("no section is named " + how.section);
      tell_parent({{"nanoseconds", run(way_named(how.child), *what, how.directory, how.runs)}});
      return true;
    }
    const raised_priority priority;
    const benchmark_run running("bench_updates", how);
    const bool with_counts = has_valgrind();
    if (!with_counts) fmt::print("Without instructions and misses: there is no valgrind\n");
    bool good = true;
    for (const section& each : sections) good = show(how, each, with_counts) && good;
    return good;
  };
  return run_program("bench_updates", work, how.child.empty() ? stderr : stdout);
}
