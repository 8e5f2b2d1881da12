// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_stores: what a single store costs, with and without barriers, in a store and elsewhere [Hosking §5.4]. One program, in
// which the same loop is compiled in several ways.
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tenure/tenure.hpp>

#include "command_line.hpp"
#include "harness/program.hpp"
#include "harness/report.hpp"
#include "harness/rounds.hpp"
#include "stores/list.hpp"
#include "stores/loop.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::stores;

constexpr std::size_t items = 10'000;

struct form {
  std::string name, what;
  void (*swap)(item* const*, std::size_t);
  std::uint64_t (*sum)(item* const*, std::size_t);
};
const std::vector<form> forms{{"bare", "as ever", swap_bare, sum_bare},
                              {"inline", "checks in the code", swap_inline, sum_inline},
                              {"outlined", "a call before each store", swap_outlined, sum_outlined}};

// Nanoseconds for each item, the fastest of many passes: what else the machine does is not of interest.
template <class F>
double fastest(F&& pass) {
  using clock = std::chrono::steady_clock;
  std::chrono::duration<double, std::nano> best = std::chrono::hours(1);
  for (int n = 0; n < 100; ++n) {
    const auto start = clock::now();
    pass();
    best = std::min<std::chrono::duration<double, std::nano>>(best, clock::now() - start);
  }
  return best.count() / items;
}

// The items, in ordinary memory or in a store with barriers, which is open in any case.
class world {
 public:
  explicit world(const std::filesystem::path& directory)
      : store_(directory.string(), {.barriers = tenure::rvm::write_barriers::announced}), ordinary_(items) {
    for (item& each : ordinary_) elsewhere_.push_back(&each);
    list& stored = store_.root<list>("items");
    store_.transact([&] {
      for (std::size_t n = 0; n < items; ++n) stored.all.push_back(store_.make<item>());
    });
    stored_ = stored.all.data();
  }

  measurement run(const form& how) {
    measurement all;
    std::uint64_t sum = 0;
    all["elsewhere"] = fastest([&] { how.swap(elsewhere_.data(), items); });
    all["reading"] = fastest([&] { sum += how.sum(stored_, items); });
    if (sum == 0) throw std::runtime_error("nothing was read");
    // Traps find what a bare loop writes: all pages are open after the first pass.
    tenure::transaction tx = store_.begin();
    how.swap(stored_, items);
    all["announced"] = fastest([&] { how.swap(stored_, items); });
    tx.commit(tenure::commit_mode::lazy);
    return all;
  }

 private:
  tenure::store store_;
  std::vector<item> ordinary_;
  std::vector<item*> elsewhere_;
  item* const* stored_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  common_options how;
  tenure::tools::command_line app{"A single store, with and without barriers"};
  how.repeat = 15;
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 3;
  return run_program("bench_stores", [&] {
    const raised_priority priority;
    const benchmark_run running("bench_stores", how);
    const scratch_directory scratch{how.directory, "stores"};
    world in(scratch.path());
    std::vector<entrant> entrants;
    for (const form& each : forms) entrants.push_back({each.name, [&] { return in.run(each); }, ""});
    const std::vector<outcome> outcomes = run_rounds(entrants, {}, {.repeat = how.repeat, .compared = "elsewhere"});
    bool good = true;
    for (const auto& [metric, what] :
         {std::pair("elsewhere", "two stores to memory that is in no store"),
          std::pair("reading", "a field read in a store with barriers"),
          std::pair("announced", "two stores to a store with barriers, announced before in the transaction")}) {
      fmt::print("{}: {}; nanoseconds\n", metric, what);
      table rows{{"form", "ns", "[min .. max]", "× bare", "setting"}};
      for (std::size_t n = 0; n < outcomes.size(); ++n) {
        const outcome& each = outcomes[n];
        if (!each.failure.empty()) {
          fmt::print("  {} FAILED: {}\n", each.name, each.failure);
          good = false;
          continue;
        }
        result line;
        line.bench = "stores";
        line.contender = each.name;
        line.case_name = metric;
        line.metric = "nanoseconds";
        line.unit = "ns";
        line.value = summarize(each.values(metric));
        line.of = outcomes.front().name;
        line.ratio = line.value.median / summarize(outcomes.front().values(metric)).median;
        line.extra = {{"kernel", how.machine.kernel}, {"quick", how.quick}, {"setting", forms[n].what}};
        rows.add({each.name, number(line.value.median), range(line.value), number(line.ratio), forms[n].what});
        how.json.add(line);
      }
      rows.print();
      fmt::print("\n");
    }
    return good;
  });
}
