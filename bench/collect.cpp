// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_collect: garbage collection. Trees that are made and dropped, as GCBench does it, beside memory of new and delete and
// the Boehm collector; a graph of which parts are replaced all the time, beside databases, too; how fast objects of two sizes are
// marked, and how long the program stands still; how fast objects are moved together; what transactions lose while a collection goes
// on beside them, and for what the program waits.
#include <algorithm>
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

#include "collect/churn.hpp"
#include "collect/moved.hpp"
#include "collect/pauses.hpp"
#include "command_line.hpp"
#include "harness/child.hpp"
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
  // With barriers the writer announces its stores.
  graph(const std::filesystem::path& directory, std::uint64_t objects,
        tenure::rvm::write_barriers barriers = tenure::rvm::write_barriers::none)
      : store_(directory.string(), {.barriers = barriers}), all_(store_.root<vector>("all")) {
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
              }  // made in this transaction: nothing to announce
            }
          },
          tenure::commit_mode::lazy);
    store_.flush();
  }

  measurement collect(bool beside_writer, std::uint32_t markers = 1) {
    std::atomic<bool> is_over{false};
    std::atomic<std::uint64_t> transactions{0};
    std::thread writer;
    if (beside_writer) writer = std::thread([&] { write(is_over, transactions); });
    const auto began = clock::now();
    const tenure::collect_report report = store_.collect({.dry_run = true, .markers = markers});
    const double seconds = seconds_since(began);
    const double rate = static_cast<double>(transactions) / seconds;
    is_over = true;
    if (writer.joinable()) writer.join();
    return {{"mreferences_per_s", static_cast<double>(2 * all_.size()) / seconds * 1e-6},
            {"gib_per_s", static_cast<double>(report.kept_bytes) / seconds / (1 << 30)},
            {"stop_ms", report.stopped_seconds * 1e3},
            {"tx_per_s", rate}};
  }
  // A thread that computes costs a writer whose pages are trapped something, too: the kernel interrupts its processor at each
  // change of a page's protection.
  measurement write_without_collection(bool beside_busy_thread) {
    std::atomic<bool> is_over{false};
    std::atomic<std::uint64_t> transactions{0}, turns{0};
    const auto began = clock::now();
    std::thread busy, writer([&] { write(is_over, transactions); });
    if (beside_busy_thread)
      busy = std::thread([&] {
        while (!is_over) turns.fetch_add(1, std::memory_order_relaxed);
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    is_over = true;
    writer.join();
    if (busy.joinable()) busy.join();
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
              tenure::change(*all_[draw % all_.size()]).numbers[0] = draw;
            }
          },
          tenure::commit_mode::lazy);
  }

  tenure::store store_;
  vector& all_;
};

// --- What is shown ------------------------------------------------------------------------------------------------------

struct program_options : common_options {
  std::vector<std::string> contenders;  // of the churned graph
  churn_plan churned;
  std::string child;  // that contender, once
};

struct shown {
  std::string name, metric, unit, what;
};
bool show(const common_options& how, const std::vector<outcome>& outcomes, const shown& one,
          const std::map<std::string, std::string>& settings = {}) {
  bool good = true;
  fmt::print("{}: {}\n", one.name == one.metric ? one.name : one.name + ", " + one.metric, one.what);
  table rows{{"contender", one.unit, "[min .. max]", "× first"}};
  double first = 0;
  std::string first_name;
  for (const outcome& each : outcomes) {
    if (!each.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", each.name, each.failure);
      good = false;
      continue;
    }
    if (each.values(one.metric).empty()) continue;
    result line;
    line.bench = "collect";
    line.contender = each.name;
    line.case_name = one.name;
    line.metric = one.metric;
    line.unit = one.unit;
    line.value = summarize(each.values(one.metric));
    if (first_name.empty()) {
      first_name = each.name;
      first = line.value.median;
    }
    line.of = first_name;
    line.ratio = first == 0 ? 0 : line.value.median / first;
    line.extra = {{"kernel", how.machine.kernel}, {"quick", how.quick}};
    if (const auto found = settings.find(each.name); found != settings.end()) line.extra["setting"] = found->second;
    rows.add({each.name, number(line.value.median), range(line.value), number(line.ratio)});
    how.json.add(line);
  }
  rows.print();
  fmt::print("\n");
  return good;
}

// --- The cases ----------------------------------------------------------------------------------------------------------

bool run_trees(const common_options& how, const std::filesystem::path& directory) {
  const std::uint64_t trees = how.quick ? 40 : 400;
  std::vector<entrant> growers{{"new", [&] { return trees_of_new(trees); }, ""}};
#ifdef TENURE_HAVE_BOEHM
  GC_INIT();
  growers.push_back({"boehm", [&] { return trees_of_boehm(trees); }, ""});
#endif
  growers.push_back({"tenure", [&] { return trees_of_store(directory, trees); }, ""});
  const auto grown = run_rounds(growers, {}, {.repeat = how.repeat, .compared = "ns_per_node"});
  bool good = true;
  for (const auto& [metric, unit, what] :
       {std::tuple("ns_per_node", "ns", "trees of 32767 nodes, nine of ten dropped; those of a store are committed"),
        std::tuple("longest_stop_ms", "ms", "the longest that all threads stood still"),
        std::tuple("file_per_live", "×", "the database's file by what is live in it")})
    good = show(how, grown, {metric, metric, unit, what}) && good;
  return good;
}

const contender_kind& kind_named(const std::string& name) {
  const auto all = all_contenders();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& kind) { return kind.name == name; });
  if (found == all.end()) throw std::invalid_argument("no contender is named " + name);
  return *found;
}

// A process of its own for every run: memory is measured.
void churn_once(const program_options& how) {
  const auto who = kind_named(how.child).make(how.directory, how.churned.slots());
  if (who == nullptr) throw std::runtime_error(how.child + " is not built");
  tell_parent(churn(*who, how.directory, how.churned));
}
measurement run_churn(const program_options& how, const std::filesystem::path& parent, const std::string& contender) {
  const scratch_directory scratch{parent, contender};
  const auto said =
      run_child({"--child", contender, "--dir", scratch.path().string(), "--objects",
                 std::to_string(how.churned.objects), "--turnover", std::to_string(how.churned.turnover)});
  measurement all;
  for (const auto& [name, value] : said.items()) all[name] = value;
  return all;
}

bool run_churns(const program_options& how, const std::filesystem::path& directory) {
  std::vector<entrant> entrants;
  std::map<std::string, std::string> settings;
  for (const auto& kind : all_contenders()) {
    if (!how.contenders.empty() &&
        std::find(how.contenders.begin(), how.contenders.end(), kind.name) == how.contenders.end())
      continue;
    const auto one = kind.make(directory, 0);
    if (one == nullptr) {
      fmt::print("{}: not built\n", kind.name);
      continue;
    }
    settings[kind.name] = one->setting();
    fmt::print("{}: {}\n", kind.name, one->setting());
    entrants.push_back(
        {kind.name, [&how, &directory, name = kind.name] { return run_churn(how, directory, name); }, ""});
  }
  fmt::print("\n");
  const auto churned = run_rounds(entrants, {}, {.repeat = how.repeat, .compared = "ns_per_object"});
  const std::string name = fmt::format("churn-{}", how.churned.objects);
  bool good = true;
  for (const auto& [metric, unit, what] :
       {std::tuple("ns_per_object", "ns",
                   "an object that is replaced, its share of making all durable in the end included"),
        std::tuple("cpu_ns_per_object", "ns", "processor time of all threads for it"),
        std::tuple("built_file", "×", "the file by what is live in it, before anything is replaced"),
        std::tuple("churned_file", "×", "the file by what is live in it, afterwards"),
        std::tuple("tidied_file", "×",
                   "what the file has on the disk by what is live in it, when it is compacted and closed"),
        std::tuple("built_memory", "×", "resident memory by what is live, before anything is replaced"),
        std::tuple("churned_memory", "×", "resident memory by what is live, afterwards"),
        std::tuple("tidied_memory", "×", "resident memory by what is live, when it is compacted"),
        std::tuple("churned_anonymous", "×", "what of that is no page of the file, before it is compacted"),
        std::tuple("log_mib", "MiB", "the log's files, afterwards"),
        std::tuple("tidy_ms", "ms", "compacting: a collection with trim, a compacting copy, VACUUM"),
        std::tuple("cycles", "", "collections meanwhile"),
        std::tuple("longest_stop_ms", "ms", "the longest that all threads stood still")})
    good = show(how, churned, {name, metric, unit, what}, settings) && good;
  return good;
}

bool run_marking(const common_options& how, const std::filesystem::path& directory) {
  const std::uint64_t objects = how.quick ? 100'000 : 2'000'000;
  graph<56> small(directory / "trapped", objects);
  graph<56> announced(directory / "announced", objects, tenure::rvm::write_barriers::announced);
  graph<128> large(directory / "large", objects / 2);
  const std::vector<entrant> markers{
      {"56 bytes", [&] { return small.collect(false); }, ""},
      {"56 bytes, beside a writer", [&] { return small.collect(true); }, ""},
      {"56 bytes, two markers", [&] { return small.collect(false, 2); }, ""},
      {"56 bytes, two markers, beside a writer", [&] { return small.collect(true, 2); }, ""},
      {"128 bytes", [&] { return large.collect(false); }, ""},
      {"128 bytes, beside a writer", [&] { return large.collect(true); }, ""},
      {"128 bytes, two markers", [&] { return large.collect(false, 2); }, ""},
      {"128 bytes, two markers, beside a writer", [&] { return large.collect(true, 2); }, ""},
      {"the writer alone", [&] { return small.write_without_collection(false); }, ""},
      {"the writer beside a busy thread", [&] { return small.write_without_collection(true); }, ""},
      {"56 bytes, beside an announcing writer", [&] { return announced.collect(true); }, ""},
      {"the announcing writer alone", [&] { return announced.write_without_collection(false); }, ""},
      {"the announcing writer beside a busy thread", [&] { return announced.write_without_collection(true); }, ""}};
  const auto marked = run_rounds(markers, {}, {.repeat = how.repeat, .compared = "tx_per_s"});
  bool good = true;
  for (const auto& [metric, unit, what] :
       {std::tuple("mreferences_per_s", "M/s",
                   "references followed a second, looking for garbage and the stop included"),
        std::tuple("gib_per_s", "GiB/s", "objects a second"),
        std::tuple("stop_ms", "ms", "how long all threads stood still"),
        std::tuple("tx_per_s", "1/s", "lazy transactions of four words")})
    good = show(how, marked, {metric, metric, unit, what}) && good;
  return good;
}

bool run_moving(const common_options& how, const std::filesystem::path& directory) {
  const std::uint64_t objects = how.quick ? 100'000 : 2'000'000;
  const std::vector<entrant> movers{
      {"64 bytes, near", [&] { return move_together<64>(directory, objects, neighbours::near); }, ""},
      {"64 bytes, anywhere", [&] { return move_together<64>(directory, objects, neighbours::anywhere); }, ""},
      {"1024 bytes, near", [&] { return move_together<1024>(directory, objects / 16, neighbours::near); }, ""},
      {"1024 bytes, anywhere", [&] { return move_together<1024>(directory, objects / 16, neighbours::anywhere); }, ""}};
  const auto moved = run_rounds(movers, {}, {.repeat = how.repeat, .compared = "ms_per_mib"});
  bool good = true;
  for (const auto& [metric, unit, what] :
       {std::tuple("ms_per_mib", "ms", "a collection that moves what is left of sparse blocks, by the MiB moved"),
        std::tuple("us_per_object", "us", "the same by the object"),
        std::tuple("longest_move_ms", "ms", "the longest of its transactions")})
    good = show(how, moved, {metric, metric, unit, what}) && good;
  return good;
}

bool run_pauses(const common_options& how, const std::filesystem::path& directory) {
  using enum replaced_graph::beside;
  const std::uint64_t objects = how.quick ? 50'000 : 1'000'000;
  replaced_graph trapped(directory / "pauses", objects, tenure::rvm::write_barriers::none);
  replaced_graph announced(directory / "announced-pauses", objects, tenure::rvm::write_barriers::announced);
  const std::vector<entrant> writers{
      {"alone", [&] { return trapped.replace(nothing); }, ""},
      {"beside marking", [&] { return trapped.replace(marking); }, ""},
      {"beside collections", [&] { return trapped.replace(collections); }, ""},
      {"announcing, alone", [&] { return announced.replace(nothing); }, ""},
      {"announcing, beside marking", [&] { return announced.replace(marking); }, ""},
      {"announcing, beside collections", [&] { return announced.replace(collections); }, ""}};
  const auto waited = run_rounds(writers, {}, {.repeat = how.repeat, .compared = "p99_us"});
  bool good = true;
  for (const auto& [metric, unit, what] :
       {std::tuple("p50_us", "us", "a lazy transaction that replaces four objects of a million, the median"),
        std::tuple("p99_us", "us", "the 99th percentile"), std::tuple("p999_us", "us", "the 99.9th percentile"),
        std::tuple("longest_us", "us", "the longest, the stop included")})
    good = show(how, waited, {"pauses", metric, unit, what}) && good;
  return good;
}

bool run_stops(const common_options& how, const std::filesystem::path& directory) {
  std::vector<entrant> stops{{"0 MiB", [&] { return stop_with(directory, 0, memory_kind::own); }, ""}};
  for (const std::uint64_t mib : how.quick ? std::vector<std::uint64_t>{64} : std::vector<std::uint64_t>{256, 1024})
    for (const auto& [kind, name] : {std::pair(memory_kind::own, "own"), std::pair(memory_kind::shared, "shared")})
      stops.push_back({fmt::format("{} MiB, {}", mib, name),
                       [&directory, mib, kind = kind] { return stop_with(directory, mib << 20, kind); }, ""});
  const auto stopped = run_rounds(stops, {}, {.repeat = how.repeat, .compared = "stop_ms"});
  bool good =
      show(how, stopped, {"stop", "stop_ms", "ms", "how long all threads stand still, by memory of the program"});
  return show(how, stopped, {"stop", "was_copied", "", "whether a copy of the process was scanned"}) && good;
}

bool run_young(const common_options& how, const std::filesystem::path& directory) {
  const std::vector<entrant> one{{"tenure", [&] { return reclaim_young(directory); }, ""}};
  return show(how, run_rounds(one, {}, {.repeat = how.repeat, .compared = "us_per_mb"}),
              {"young", "us_per_mb", "us", "a megabyte of young garbage that a commit takes back"});
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  std::vector<std::string> cases;
  tenure::tools::command_line app{"Garbage collection of an open store"};
  how.repeat = 5;
  app.option("--cases", cases, "only these: trees, churn, marking, moving, pauses, stop, young").separated_by_commas();
  app.option("--contenders", how.contenders, "of the churned graph, only these").separated_by_commas();
  app.option("--objects", how.churned.objects, "of the churned graph that live at once").shows_default();
  app.option("--turnover", how.churned.turnover, "how often each of them is replaced").shows_default();
  app.option("--child", how.child, "").hidden();
  add_common_options(app, how);
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  const auto work = [&] {
    if (!how.child.empty()) {
      churn_once(how);
      return true;
    }
    if (how.quick) {
      if (!app.has("--repeat")) how.repeat = 2;
      if (!app.has("--objects")) how.churned.objects = 20'000;
      if (!app.has("--turnover")) how.churned.turnover = 2;
    }
    const benchmark_run running("bench_collect", how);
    const scratch_directory scratch{how.directory, "collect"};
    const auto asked = [&](const std::string& name) {
      return cases.empty() || std::find(cases.begin(), cases.end(), name) != cases.end();
    };
    bool good = true;
    if (asked("trees")) good = run_trees(how, scratch.path()) && good;
    if (asked("churn")) good = run_churns(how, scratch.path()) && good;
    if (asked("moving")) good = run_moving(how, scratch.path()) && good;
    if (asked("marking")) good = run_marking(how, scratch.path()) && good;
    if (asked("pauses")) good = run_pauses(how, scratch.path()) && good;
    if (asked("stop")) good = run_stops(how, scratch.path()) && good;
    if (asked("young")) good = run_young(how, scratch.path()) && good;
    return good;
  };
  return run_program("bench_collect", work, how.child.empty() ? stderr : stdout);
}
