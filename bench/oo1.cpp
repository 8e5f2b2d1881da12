// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_oo1: the OO1 benchmark with White & DeWitt's updates. Every run is a process of its own that opens the database
// from a cold page cache; a run of a contender comes right after a run of the same program over plain objects.
#include <chrono>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "command_line.hpp"
#include "harness/child.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "oo1/run.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::oo1;

struct program_options : common_options {
  std::vector<std::string> sizes{"20k", "200k", "1M"};
  std::vector<std::string> contenders, operations, cases;
  unsigned repeat_traversal = 15;  // its ratio to plain objects is what the heap is about
  std::string child;
};

const contender_kind& kind_named(const std::string& name) {
  for (const auto& kind : all_contenders())
    if (kind.name == name) return kind;
  throw std::invalid_argument("no contender is named " + name);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// --- A process of its own ---

void run_child(const program_options& how) {
  const raised_priority priority;
  const int parts = parts_from(how.sizes.at(0));
  const auto who = kind_named(how.contenders.at(0)).make(how.directory, parts);
  if (who == nullptr) throw std::runtime_error(how.contenders.at(0) + " is not built");
  nlohmann::json said;
  if (how.child == "create") {
    const auto start = std::chrono::steady_clock::now();
    who->create();
    said["build"] = milliseconds_since(start);
    who->close();
  } else {
    measuring protocol;
    if (how.quick) protocol.traversals_per_transaction = {1, 5, 10, 20};
    said = measure(*who, case_named(how.operations.at(0)), parts, protocol);
  }
  tell_parent(said);
}

// --- The program ---

class size_run {
 public:
  size_run(const program_options& how, const std::string& size)
      : how_(how), size_(size), parts_(parts_from(size)), made_(how.directory) {
    for (const auto& kind : all_contenders()) {
      if (kind.name != "plain" && !is_chosen(kind)) continue;
      const auto one = kind.make(how.directory, parts_);
      if (one == nullptr) {
        fmt::print("{}: not built\n", kind.name);
        continue;
      }
      kinds_.push_back(&kind);
      settings_[kind.name] = one->setting();
      persistent_[kind.name] = one->persistent();
    }
  }
  ~size_run() { made_.clear(); }
  size_run(const size_run&) = delete;
  size_run& operator=(const size_run&) = delete;

  bool run() {
    bool good = true;
    for (const case_plan& one : all_cases())
      if (is_asked_for(one)) good = run_case(one) && good;
    if (is_build_asked_for()) good = run_build() && good;
    return good;
  }

 private:
  // What is shown of the rounds of one operation.
  struct part {
    std::string name, key, what;
    std::vector<std::string> more;
  };
  std::vector<part> parts_of(const case_plan& one) const {
    const bool commits = one.what == kind::insert || one.what == kind::update;
    const std::string what = one.what == kind::lookup      ? "1000 parts by id"
                             : one.what == kind::traversal ? "3280 visits"
                             : one.what == kind::reverse   ? "incoming connections, for 3280 visits"
                             : one.what == kind::insert
                                 ? "100 parts, durable"
                                 : fmt::format("3280 visits, {} % of the parts changed, durable", one.percent);
    std::vector<std::string> more_hot{"warm"};
    if (one.what == kind::update) more_hot.insert(more_hot.end(), {"fit_a_ms", "fit_b_ms", "updated"});
    return {{one.name + (commits ? "-" : "-hot-") + size_, "hot", what + "; hot", more_hot},
            {one.name + "-cold-" + size_, "cold", what + "; from a cold page cache", {"open_ms", "still_cached"}}};
  }
  bool is_chosen(const contender_kind& kind) const {
    if (how_.contenders.empty()) return !kind.only_if_named;
    return std::ranges::find(how_.contenders, kind.name) != how_.contenders.end();
  }
  // Larger databases have fewer cases unless they are asked for.
  bool is_asked_for(const case_plan& one) const {
    if (!how_.cases.empty())
      return std::ranges::any_of(parts_of(one), [&](const part& p) { return is_wanted(p.name, how_.cases); });
    if (!how_.operations.empty()) return std::ranges::find(how_.operations, one.name) != how_.operations.end();
    if (how_.quick)
      return one.what == kind::lookup || one.what == kind::traversal || one.what == kind::insert ||
             one.name == "update-p50";
    return parts_ <= 20'000 || one.what == kind::lookup || one.what == kind::traversal;
  }
  bool is_build_asked_for() const {
    const std::string name = "build-" + size_;
    if (!how_.cases.empty()) return is_wanted(name, how_.cases);
    if (!how_.operations.empty()) return std::ranges::find(how_.operations, "build") != how_.operations.end();
    return !how_.quick;
  }

  std::vector<std::string> arguments(const std::string& task, const std::string& contender) const {
    return {"--child", task, "--contenders", contender, "--parts", size_};
  }
  measurement measure(const contender_kind& kind, const case_plan& what) {
    std::filesystem::path directory = how_.directory;
    measurement m;
    if (persistent_.at(kind.name)) {
      directory = made_.get(kind.name, size_, arguments("create", kind.name), kind.build_environment);
      m["still_cached"] = drop_directory_from_cache(directory);
    }
    auto words = arguments("measure", kind.name);
    words.insert(words.end(), {"--operations", what.name, "--dir", directory.string()});
    if (how_.quick) words.emplace_back("--quick");
    const auto said = tenure::bench::run_child(words);
    const auto& warm = said.at("warm");
    if (said.contains("open")) {
      m["open_ms"] = said["open"];
      m["cold"] = warm.at(0);
    }
    m["warm"] = warm.back();
    m["hot"] = summarize(said.at("hot").get<std::vector<double>>()).median;
    if (said.contains("fit")) {
      const auto fit =
          fit_line(said["fit"]["n"].get<std::vector<double>>(), said["fit"]["ms"].get<std::vector<double>>());
      m["fit_a_ms"] = fit.a;
      m["fit_b_ms"] = fit.b;
      m["updated"] = said["fit"]["updated"];
    }
    for (const auto& [name, value] : said.at("breakdown").items()) m[name] = value;
    return m;
  }

  bool show(const part& shown, const std::vector<outcome>& outcomes) const {
    shown_case as{"oo1",     shown.name, shown.what, shown.key, shown.key == "hot", describe(how_.machine, how_.quick),
                  settings_, shown.more};
    as.extra["parts"] = parts_;
    if (shown.key == "hot") add_breakdown(outcomes, as.more);
    return show_case(as, outcomes, how_.json);
  }
  bool run_case(const case_plan& one) {
    round_options rounds;
    rounds.repeat = how_.repeat;
    if (one.what == kind::traversal && parts_ <= 20'000 && !how_.quick)
      rounds.repeat = std::max(how_.repeat, how_.repeat_traversal);
    rounds.share_baseline = parts_ > 200'000;  // which makes its objects in each run
    rounds.compared = "hot";
    const auto& plain = *kinds_.front();
    std::vector<entrant> entrants;
    for (const auto* kind : kinds_)
      if (kind != &plain) entrants.push_back({kind->name, [&, kind] { return measure(*kind, one); }, "plain"});
    const auto outcomes = run_rounds(entrants, {{"plain", [&] { return measure(plain, one); }}}, rounds);
    bool good = true;
    for (const part& shown : parts_of(one)) good = show(shown, outcomes) && good;
    return good;
  }

  measurement build(const contender_kind& kind) const {
    const scratch_directory scratch{how_.directory, "build"};
    auto words = arguments("create", kind.name);
    words.insert(words.end(), {"--dir", scratch.path().string()});
    return {{"hot", tenure::bench::run_child(words).at("build")}};
  }
  bool run_build() {
    round_options rounds;
    rounds.repeat = how_.repeat;
    rounds.share_baseline = true;
    rounds.compared = "hot";
    std::vector<entrant> entrants;
    for (const auto* kind : kinds_) {
      if (kind == kinds_.front()) continue;
      if (*kind->build_environment != '\0') {
        fmt::print("{}: takes minutes to build and is left out\n", kind->name);
        continue;
      }
      entrants.push_back({kind->name, [&, kind] { return build(*kind); }, "plain"});
    }
    const auto outcomes = run_rounds(entrants, {{"plain", [&] { return build(*kinds_.front()); }}}, rounds);
    return show({"build-" + size_, "hot", "all parts and connections made, durable", {}}, outcomes);
  }

  const program_options& how_;
  std::string size_;
  int parts_;
  made_databases made_;
  std::vector<const contender_kind*> kinds_;  // those that are built and chosen, plain first
  std::map<std::string, std::string> settings_;
  std::map<std::string, bool> persistent_;
};

bool run(program_options& how) {
  const benchmark_run running("bench_oo1", how);
  const auto start = std::chrono::steady_clock::now();
  bool good = true;
  for (const auto& size : how.sizes) good = size_run{how, size}.run() && good;
  fmt::print("{} after {:.0f} s, load {}\n", good ? "all answers right" : "FAILED",
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
             describe_machine(how.directory).load);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  tenure::tools::command_line app{"OO1: lookups, traversals, insertions and updates of parts and connections"};
  app.option("--parts", how.sizes, "numbers of parts").separated_by_commas().shows_default();
  app.option("--operations", how.operations, "only these: lookup, traversal, reverse, insert, update-p50, …, build")
      .separated_by_commas();
  app.option("--cases", how.cases, "only what these need; the beginning of a name up to a dash will do")
      .separated_by_commas();
  app.option("--contenders", how.contenders, "only these").separated_by_commas();
  add_common_options(app, how, "runs of each contender (traversals of 20k: at least 15, unless quick)",
                     "a short form: 20k parts, four operations, three runs");
  app.option("--child", how.child, "one run, as valgrind needs it: create, measure").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  const auto work = [&] {
    if (!how.child.empty()) {
      run_child(how);
      return true;
    }
    if (how.quick) {
      if (!app.has("--parts")) how.sizes = {"20k"};
      if (!app.has("--repeat")) how.repeat = 3;
    }
    return run(how);
  };
  return run_program("bench_oo1", work, how.child.empty() ? stderr : stdout);
}
