// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_collect: garbage collection. Trees that are made and dropped, as GCBench does it, beside memory of new and delete and
// the Boehm collector; how fast objects of two sizes are marked, and how long the program stands still; what transactions lose
// while a collection goes on beside them.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#ifdef TENURE_HAVE_BOEHM
#include <gc.h>
#endif

#include <tenure/tenure.hpp>

#include "command_line.hpp"
#include "harness/program.hpp"
#include "harness/report.hpp"
#include "harness/rounds.hpp"

namespace tenure::bench::collect {

struct tree {
  tree *left = nullptr, *right = nullptr;
  std::uint64_t numbers[2] = {};
};
struct forest {
  tenure::vector<tree*> kept;
  tree* last = nullptr;
};
template <std::size_t Size>
struct cell {
  cell *a = nullptr, *b = nullptr;
  std::uint64_t numbers[Size / 8 - 2] = {};
};

}  // namespace tenure::bench::collect

namespace {

using namespace tenure::bench;
using namespace tenure::bench::collect;
using clock = std::chrono::steady_clock;
double seconds_since(clock::time_point began) { return std::chrono::duration<double>(clock::now() - began).count(); }

// --- Trees --------------------------------------------------------------------------------------------------------------

constexpr int depth = 14;
constexpr std::uint64_t nodes_in_tree = (1 << (depth + 1)) - 1;

template <class Make>
tree* grow(int levels, Make&& make) {
  tree* const made = make();
  made->numbers[0] = static_cast<std::uint64_t>(levels);
  if (levels == 0) return made;
  made->left = grow(levels - 1, make);
  made->right = grow(levels - 1, make);
  return made;
}
void fell(tree* at) {
  if (at == nullptr) return;
  fell(at->left);
  fell(at->right);
  delete at;
}

// Trees are made one after the other; a tenth of them stays.
measurement trees_of_new(std::uint64_t trees) {
  std::vector<tree*> kept;
  const auto began = clock::now();
  for (std::uint64_t n = 0; n < trees; ++n) {
    tree* const made = grow(depth, [] { return new tree; });
    if (n % 10 == 0)
      kept.push_back(made);
    else
      fell(made);
  }
  const double seconds = seconds_since(began);
  for (tree* each : kept) fell(each);
  return {{"ns_per_node", seconds * 1e9 / static_cast<double>(trees * nodes_in_tree)}};
}

#ifdef TENURE_HAVE_BOEHM
measurement trees_of_boehm(std::uint64_t trees) {
  auto* const kept = static_cast<tree**>(GC_MALLOC(sizeof(tree*) * (trees / 10 + 1)));
  const auto began = clock::now();
  for (std::uint64_t n = 0; n < trees; ++n) {
    tree* const made = grow(depth, [] { return new (GC_MALLOC(sizeof(tree))) tree; });
    if (n % 10 == 0) kept[n / 10] = made;
  }
  const double seconds = seconds_since(began);
  GC_reachable_here(kept);
  return {{"ns_per_node", seconds * 1e9 / static_cast<double>(trees * nodes_in_tree)}};
}
#endif

// The trees are persistent: each is committed, and dropped by the next one. The collector comes by itself.
measurement trees_of_store(const std::filesystem::path& directory, std::uint64_t trees) {
  const std::filesystem::path place = directory / "trees";
  std::filesystem::remove_all(place);
  std::atomic<std::uint64_t> cycles{0};
  double longest_stop = 0;
  tenure::store_options how;
  how.collection.enabled = true;
  how.collection.on_collected = [&](const tenure::collect_report& r) {
    ++cycles;
    longest_stop = std::max(longest_stop, r.stopped_seconds);
  };
  tenure::store store(place.string(), how);
  forest& all = store.root<forest>("forest");
  const auto began = clock::now();
  for (std::uint64_t n = 0; n < trees; ++n)
    store.transact(
        [&] {
          all.last = grow(depth, [&] { return store.make<tree>(); });
          if (n % 10 == 0) all.kept.push_back(all.last);
        },
        tenure::commit_mode::lazy);
  const double seconds = seconds_since(began);
  store.close();
  const auto length = static_cast<double>(std::filesystem::file_size(place / "main.db"));
  std::filesystem::remove_all(place);
  return {{"ns_per_node", seconds * 1e9 / static_cast<double>(trees * nodes_in_tree)},
          {"cycles", static_cast<double>(cycles)},
          {"longest_stop_ms", longest_stop * 1e3},
          {"file_per_live", length / static_cast<double>((trees + 9) / 10 * nodes_in_tree * sizeof(tree))}};
}

// --- Marking ------------------------------------------------------------------------------------------------------------

// A random graph of live objects, each with two references.
template <std::size_t Size>
class graph {
 public:
  graph(const std::filesystem::path& directory, std::uint64_t objects)
      : store_((directory / ("graph" + std::to_string(Size))).string()), all_(store_.root<vector>("all")) {
    std::uint64_t draw = 1;
    std::uint64_t done = 0;
    while (done < objects)
      store_.transact(
          [&] {
            for (std::uint64_t n = 0; n < 10'000 && done < objects; ++n, ++done) {
              all_.push_back(store_.make<cell<Size>>());
              for (cell<Size>** each : {&all_.back()->a, &all_.back()->b}) {
                draw = draw * 6364136223846793005u + 1442695040888963407u;
                *each = all_[draw % all_.size()];
              }
            }
          },
          tenure::commit_mode::lazy);
    store_.flush();
  }

  measurement collect(bool beside_writer) {
    std::atomic<bool> is_over{false};
    std::atomic<std::uint64_t> transactions{0};
    std::thread writer;
    if (beside_writer) writer = std::thread([&] { write(is_over, transactions); });
    const auto began = clock::now();
    const tenure::collect_report report = store_.collect({.dry_run = true});
    const double seconds = seconds_since(began);
    const double rate = static_cast<double>(transactions) / seconds;
    is_over = true;
    if (writer.joinable()) writer.join();
    return {{"mreferences_per_s", static_cast<double>(2 * all_.size()) / seconds * 1e-6},
            {"gib_per_s", static_cast<double>(report.kept_bytes) / seconds / (1 << 30)},
            {"stop_ms", report.stopped_seconds * 1e3},
            {"tx_per_s", rate}};
  }
  measurement write_alone() {
    std::atomic<bool> is_over{false};
    std::atomic<std::uint64_t> transactions{0};
    const auto began = clock::now();
    std::thread writer([&] { write(is_over, transactions); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    is_over = true;
    writer.join();
    return {{"tx_per_s", static_cast<double>(transactions) / seconds_since(began)}};
  }

 private:
  using vector = tenure::vector<cell<Size>*>;
  void write(const std::atomic<bool>& is_over, std::atomic<std::uint64_t>& transactions) {
    for (std::uint64_t draw = 7; !is_over; ++transactions)
      store_.transact(
          [&] {
            for (int n = 0; n < 4; ++n) {
              draw = draw * 6364136223846793005u + 1442695040888963407u;
              all_[draw % all_.size()]->numbers[0] = draw;
            }
          },
          tenure::commit_mode::lazy);
  }

  tenure::store store_;
  vector& all_;
};

void show(common_options& how, const std::vector<outcome>& outcomes, const std::string& metric, const std::string& unit,
          const std::string& what, bool& good) {
  fmt::print("{}: {}\n", metric, what);
  table rows{{"contender", unit, "[min .. max]", "× first"}};
  double first = 0;
  for (const outcome& each : outcomes) {
    if (!each.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", each.name, each.failure);
      good = false;
      continue;
    }
    if (each.values(metric).empty()) continue;
    result line;
    line.bench = "collect";
    line.contender = each.name;
    line.case_name = metric;
    line.metric = metric;
    line.unit = unit;
    line.value = summarize(each.values(metric));
    if (first == 0) first = line.value.median;
    line.of = outcomes.front().name;
    line.ratio = first == 0 ? 0 : line.value.median / first;
    line.extra = {{"kernel", how.machine.kernel}, {"quick", how.quick}};
    rows.add({each.name, number(line.value.median), range(line.value), number(line.ratio)});
    how.json.add(line);
  }
  rows.print();
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  common_options how;
  tenure::tools::command_line app{"Garbage collection of an open store"};
  how.repeat = 5;
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  if (how.quick) how.repeat = 2;
  return run_program("bench_collect", [&] {
    const benchmark_run running("bench_collect", how);
    const scratch_directory scratch{how.directory, "collect"};
    const std::uint64_t trees = how.quick ? 40 : 400, objects = how.quick ? 100'000 : 2'000'000;
    bool good = true;
    std::vector<entrant> growers{{"new", [&] { return trees_of_new(trees); }, ""}};
#ifdef TENURE_HAVE_BOEHM
    GC_INIT();
    growers.push_back({"boehm", [&] { return trees_of_boehm(trees); }, ""});
#endif
    growers.push_back({"tenure", [&] { return trees_of_store(scratch.path(), trees); }, ""});
    const auto grown = run_rounds(growers, {}, {.repeat = how.repeat, .compared = "ns_per_node"});
    show(how, grown, "ns_per_node", "ns", "trees of 32767 nodes, nine of ten dropped; those of a store are committed",
         good);
    show(how, grown, "longest_stop_ms", "ms", "the longest that all threads stood still", good);
    show(how, grown, "file_per_live", "×", "the database's file by what is live in it", good);

    graph<56> small(scratch.path(), objects);
    graph<128> large(scratch.path(), objects / 2);
    const std::vector<entrant> markers{{"56 bytes", [&] { return small.collect(false); }, ""},
                                       {"56 bytes, beside a writer", [&] { return small.collect(true); }, ""},
                                       {"128 bytes", [&] { return large.collect(false); }, ""},
                                       {"128 bytes, beside a writer", [&] { return large.collect(true); }, ""},
                                       {"the writer alone", [&] { return small.write_alone(); }, ""}};
    const auto marked = run_rounds(markers, {}, {.repeat = how.repeat, .compared = "tx_per_s"});
    for (const auto& [metric, unit, what] :
         {std::tuple("mreferences_per_s", "M/s",
                     "references followed a second, looking for garbage and the stop included"),
          std::tuple("gib_per_s", "GiB/s", "objects a second"),
          std::tuple("stop_ms", "ms", "how long all threads stood still"),
          std::tuple("tx_per_s", "1/s", "lazy transactions of four words")})
      show(how, marked, metric, unit, what, good);
    return good;
  });
}
