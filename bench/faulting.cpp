// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_faulting: the object faulting experiments [Hosking §5.2.1, §5.3]. OO1's Lookup and Traversal under all schemes of Table 5.1,
// by an interpreter whose cache of methods takes the place of residency checks, as in the thesis, and by a program that checks at
// each dereference. Every run is a process of its own that opens the database from a cold page cache: ten iterations on different
// parts, then hot ones on the last parts again.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "command_line.hpp"
#include "faulting/making.hpp"
#include "faulting/scheme.hpp"
#include "faulting/stored_objects.hpp"
#include "faulting/world.hpp"
#include "harness/callgrind.hpp"
#include "harness/child.hpp"
#include "harness/instrumentation.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "harness/rounds.hpp"
#include "oo1/graph.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::faulting;
using clock_type = std::chrono::steady_clock;

constexpr int looked_up = 1000, warm_iterations = 10, hot_iterations = 20;

struct program_options : common_options {
  unsigned parts = 20'000;
  std::uint64_t pool_pages = 8192;
  std::vector<std::string> schemes, operations{"lookup", "traversal"}, programs{"interpreted", "checked"};
  bool lists = false, without_counts = false;
  std::string child;
};

program program_named(const std::string& name) {
  if (name == "interpreted") return program::interpreted;
  if (name == "checked") return program::checked;
  throw std::invalid_argument("no program is named " + name + "; there are interpreted and checked");
}

// --- A process of its own ---

class run {
 public:
  run(const program_options& how, const scheme& under)
      : parts_(static_cast<int>(how.parts)),
        is_lookup_(how.operations.at(0) == "lookup"),
        objects_(how.directory / "store", how.pool_pages),
        world_(make_world(under, program_named(how.programs.at(0)), objects_)) {
    if (!is_lookup_ && how.operations.at(0) != "traversal")
      throw std::invalid_argument("no operation is named " + how.operations.at(0) + "; there are lookup and traversal");
  }

  nlohmann::json measure() {
    std::vector<int> ids;
    for (int i = 0; i < warm_iterations; ++i) {
      oo1::random_numbers random{static_cast<std::uint64_t>(i) + 1};
      ids.assign(is_lookup_ ? looked_up : 1, 0);
      for (int& id : ids) id = random.up_to(parts_);
      iterate(ids);
    }
    start_instrumentation();
    for (int i = 0; i < hot_iterations; ++i) iterate(ids);
    stop_instrumentation();
    for (const question& each : asked_)
      if (!(each.answer ==
            (is_lookup_ ? planned_lookup(each.ids, parts_) : planned_traversal(each.ids.front(), oo1::hops, parts_))))
        throw std::runtime_error("wrong answer");
    return iterations_;
  }

 private:
  struct question {
    std::vector<int> ids;
    visits answer;
  };
  void iterate(const std::vector<int>& ids) {
    const fault_counts before = world_->counts();
    const std::uint64_t pages = objects_.page_reads();
    const auto start = clock_type::now();
    const visits answer = is_lookup_ ? world_->look_up(ids) : world_->traverse(ids.front(), oo1::hops);
    const double taken = std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
    const fault_counts& after = world_->counts();
    const auto ms = [](std::uint64_t from, std::uint64_t to) { return static_cast<double>(to - from) / 1e6; };
    const double reading = ms(before.reading, after.reading), swizzling = ms(before.swizzling, after.swizzling),
                 bypassing = ms(before.bypassing, after.bypassing);
    iterations_.push_back({{"ms", taken},
                           {"reading_ms", reading},
                           {"swizzling_ms", swizzling},
                           {"bypassing_ms", bypassing},
                           {"running_ms", taken - reading - swizzling - bypassing},
                           {"faults", after.faults - before.faults},
                           {"objects", after.objects - before.objects},
                           {"redirected", after.redirected - before.redirected},
                           {"pages", objects_.page_reads() - pages}});
    asked_.push_back({ids, answer});
  }

  const int parts_;
  const bool is_lookup_;
  stored_objects objects_;
  const std::unique_ptr<world> world_;
  std::vector<question> asked_;
  nlohmann::json iterations_ = nlohmann::json::array();
};

void run_child(const program_options& how) {
  const raised_priority priority;
  if (how.child == "create") {
    make_database(how.directory / "store", static_cast<int>(how.parts));
    tell_parent(nlohmann::json::object());
    return;
  }
  tell_parent({{"iterations", run(how, scheme_named(how.schemes.at(0))).measure()}});
}

// --- The program ---

class all_runs {
 public:
  explicit all_runs(const program_options& how)
      : how_(how), counts_(!how.without_counts && has_valgrind()), made_(how.directory) {
    for (const scheme& each : all_schemes())
      if (how.schemes.empty() || std::ranges::find(how.schemes, name_of(each)) != how.schemes.end()) {
        schemes_.push_back(name_of(each));
        settings_[name_of(each)] = faulting::describe(each);
      }
    for (const std::string& each : how.schemes) (void)scheme_named(each);
    if (!counts_) fmt::print("Without instructions and misses of hot iterations\n");
  }
  ~all_runs() { made_.clear(); }
  all_runs(const all_runs&) = delete;
  all_runs& operator=(const all_runs&) = delete;

  bool measure() {
    bool good = true;
    for (const std::string& operation : how_.operations)
      for (const std::string& which : how_.programs) good = measure(operation, which) && good;
    return good;
  }

 private:
  std::vector<std::string> arguments(const std::string& task) const {
    return {"--child", task, "--parts", std::to_string(how_.parts), "--pool-pages", std::to_string(how_.pool_pages)};
  }
  std::vector<std::string> arguments(const std::string& operation, const std::string& which, const std::string& under,
                                     const std::filesystem::path& directory) const {
    auto words = arguments("measure");
    words.insert(words.end(),
                 {"--operations", operation, "--programs", which, "--schemes", under, "--dir", directory.string()});
    return words;
  }
  const std::filesystem::path& database() { return made_.get("faulting", "parts", arguments("create"), ""); }

  measurement measure(const std::string& operation, const std::string& which, const std::string& under) {
    const std::filesystem::path& directory = database();
    measurement m;
    m["still_cached"] = drop_directory_from_cache(directory);
    const auto iterations = tenure::bench::run_child(arguments(operation, which, under, directory)).at("iterations");
    std::vector<double> hot, faults, running;
    for (std::size_t i = 0; i < iterations.size(); ++i) {
      const auto& one = iterations[i];
      if (i < warm_iterations) m[iteration(i)] = one.at("ms");
      if (i >= warm_iterations) hot.push_back(one.at("ms"));
      if (i > warm_iterations) continue;
      // The first hot one, too, has no faults [Hosking §5.3.1.4].
      faults.push_back(one.at("faults"));
      running.push_back(one.at("running_ms"));
    }
    for (const auto& [prefix, at] : {std::pair<std::string, std::size_t>{"cold", 0}, {"warm", warm_iterations - 1}}) {
      m[prefix] = iterations[at].at("ms");
      for (const char* const name :
           {"reading_ms", "swizzling_ms", "bypassing_ms", "running_ms", "faults", "objects", "redirected", "pages"})
        m[fmt::format("{}_{}", prefix, name)] = iterations[at].at(name);
    }
    m["hot"] = summarize(hot).median;
    m["hot_redirected"] = iterations.back().at("redirected");
    if (const auto [low, high] = std::ranges::minmax(faults); low < high) {
      const line_fit fit = fit_line(faults, running);
      m["fit_base_ms"] = fit.a;
      m["fit_fault_us"] = fit.b * 1000;
      m["fit_correlation"] = fit.correlation;
    }
    if (const auto counted = counts_of_hot(operation, which, under)) m.insert(counted->begin(), counted->end());
    return m;
  }
  static std::string iteration(std::size_t i) { return fmt::format("iteration_{}", i + 1); }
  // Repeatable, so counted once.
  std::optional<measurement> counts_of_hot(const std::string& operation, const std::string& which,
                                           const std::string& under) {
    if (!counts_ || !counted_.insert(operation + which + under).second) return {};
    const scratch_directory scratch{how_.directory, "callgrind"};
    return count_instructions(arguments(operation, which, under, database()), scratch.path(), hot_iterations);
  }

  bool measure(const std::string& operation, const std::string& which) {
    std::vector<entrant> entrants;
    const std::string plain = name_of(all_schemes().front());
    for (const std::string& each : schemes_)
      if (each != plain) entrants.push_back({each, [&, each] { return measure(operation, which, each); }, plain});
    const auto outcomes = run_rounds(entrants, {{plain, [&] { return measure(operation, which, plain); }}},
                                     {.repeat = how_.repeat, .share_baseline = true, .compared = "hot"});
    const std::string what = operation == "lookup" ? "1000 parts by id" : "3280 visits";
    const auto show = [&](const std::string& key, const std::string& about, const std::vector<std::string>& more) {
      shown_case as{
          "faulting",          fmt::format("{}-{}-{}", operation, which, key == iteration(0) ? "iterations" : key),
          what + "; " + about, key,
          key == "hot",        tenure::bench::describe(how_.machine, how_.quick),
          settings_,           more};
      as.extra["parts"] = how_.parts;
      return show_case(as, outcomes, how_.json);
    };
    const auto phases = [](const std::string& of) {
      std::vector<std::string> all;
      for (const char* const name :
           {"reading_ms", "swizzling_ms", "bypassing_ms", "running_ms", "faults", "objects", "redirected", "pages"})
        all.push_back(of + "_" + name);
      return all;
    };
    std::vector<std::string> iterations;
    for (std::size_t i = 1; i < warm_iterations; ++i) iterations.push_back(iteration(i));
    bool good = show(iteration(0), "each iteration on other parts", iterations);
    good = show("cold", "from a cold page cache", phases("cold")) && good;
    good = show("warm", "the tenth iteration", phases("warm")) && good;
    return show("hot", "the parts of the tenth iteration again",
                {"hot_redirected", "fit_base_ms", "fit_fault_us", "fit_correlation", "instructions",
                 "instruction_misses", "data_misses", "memory_misses"}) &&
           good;
  }

  const program_options& how_;
  const bool counts_;
  made_databases made_;
  std::vector<std::string> schemes_;
  std::map<std::string, std::string> settings_;
  std::set<std::string> counted_;
};

void list() {
  table rows{{"scheme", "what it does"}};
  for (const scheme& each : all_schemes()) rows.add({name_of(each), faulting::describe(each)});
  rows.print();
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  tenure::tools::command_line app{"Object faulting: references to what is not in memory, by scheme"};
  app.option("--parts", how.parts, "number of parts").shows_default();
  app.option("--pool-pages", how.pool_pages, "page buffers").shows_default();
  app.option("--schemes", how.schemes, "only these").separated_by_commas();
  app.option("--operations", how.operations, "lookup, traversal").separated_by_commas().shows_default();
  app.option("--programs", how.programs, "interpreted, checked").separated_by_commas().shows_default();
  app.flag("--list", how.lists, "the schemes");
  app.flag("--no-counts", how.without_counts, "no instructions and misses by valgrind");
  add_common_options(app, how, "runs of each scheme", "three runs, no counts");
  app.option("--child", how.child, "one run, as valgrind needs it: create, measure").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  const auto work = [&] {
    if (how.lists) {
      list();
      return true;
    }
    if (how.parts == 0) throw std::invalid_argument("--parts: at least one part");
    if (!how.child.empty()) {
      run_child(how);
      return true;
    }
    if (how.quick) {
      how.without_counts = true;
      if (!app.has("--repeat")) how.repeat = 3;
    }
    const benchmark_run running("bench_faulting", how);
    return all_runs(how).measure();
  };
  return run_program("bench_faulting", work, how.child.empty() ? stderr : stdout);
}
