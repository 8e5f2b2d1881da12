// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_epvm: the experiments of White and DeWitt [EPVM §5]: OO1's traversal by versions of four architectures for persistent
// objects, reading and updating, in one transaction and in several. Every run is a process of its own that opens the database from a
// cold page cache.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "command_line.hpp"
#include "epvm/parts.hpp"
#include "epvm/world.hpp"
#include "harness/child.hpp"
#include "harness/memory_limit.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "harness/rounds.hpp"
#include "oo1/graph.hpp"
#include "os/virtual_memory.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::epvm;
using clock_type = std::chrono::steady_clock;

constexpr unsigned warm_iterations = 10, usual_hot_iterations = 10;
constexpr unsigned wide_numbers = sizeof(wide_part::numbers) / sizeof(int);

// A run: iterations on different parts, then hot ones on the last part again.
struct plan {
  std::string name;  // of the case
  std::string what;
  bool many = false;  // transactions: one for each iteration
  unsigned percent = 0;
  unsigned share = 0;  // of a wide part's numbers that an update changes, in percent; 0: x and y of a small one
  unsigned hot = usual_hot_iterations;
  bool shows_iterations = false;  // the first, the tenth and the hot ones, in place of the whole
};

std::vector<plan> all_plans() {
  std::vector<plan> all{
      {.name = "read-one", .what = "one transaction, no updates", .shows_iterations = true},
      {.name = "read-many", .what = "a transaction an iteration, no updates", .many = true, .shows_iterations = true}};
  for (const unsigned p : {0, 5, 10, 20, 50, 100}) {
    all.push_back({.name = fmt::format("write-one-p{:02}", p),
                   .what = fmt::format("one transaction, {} % of the parts updated", p),
                   .percent = p});
    all.push_back({.name = fmt::format("write-many-p{:02}", p),
                   .what = fmt::format("a durable transaction an iteration, {} % of the parts updated", p),
                   .many = true,
                   .percent = p});
  }
  for (const unsigned n : {0, 10, 100, 1000}) {
    all.push_back({.name = fmt::format("hot-read-{}", n),
                   .what = fmt::format("one transaction, {} hot iterations, no updates", n),
                   .hot = n});
    all.push_back({.name = fmt::format("hot-update-{}", n),
                   .what = fmt::format("one transaction, {} hot iterations, 10 % of the parts updated", n),
                   .percent = 10,
                   .hot = n});
  }
  for (const unsigned s : {1, 25, 50, 100})
    all.push_back(
        {.name = fmt::format("share-{}", s),
         .what = fmt::format("one transaction, {} % of the integers in 10 % of the wide parts updated, one by one", s),
         .percent = 10,
         .share = s});
  return all;
}

const plan& plan_named(const std::string& name) {
  static const std::vector<plan> all = all_plans();
  for (const plan& each : all)
    if (each.name == name) return each;
  throw std::invalid_argument("there is no case " + name);
}

struct program_options : common_options {
  unsigned parts = 20'000;
  std::uint64_t pool_pages = pool_sizes().pages, small_pool_pages = pool_sizes().small;
  std::vector<std::string> versions, cases;
  std::uint64_t memory = 0;  // MiB that a run may use; 0: all
  bool lists = false;
  std::string child, group;
  [[nodiscard]] int parts_of(const plan& of) const {
    return static_cast<int>(of.share == 0 ? parts : std::max(parts / 8, 1U));
  }
};

// --- A process of its own ---

class run {
 public:
  run(const program_options& how, const plan& of) : plan_(of), parts_(how.parts_of(of)) {
    doing_.percent = static_cast<int>(of.percent);
    doing_.numbers = of.share == 0 ? 0 : static_cast<int>(std::max(wide_numbers * of.share / 100, 1U));
    world_ = make_world(how.versions.at(0), how.directory, parts_, of.share != 0,
                        {.pages = how.pool_pages, .small = how.small_pool_pages});
  }

  nlohmann::json measure() {
    std::vector<double> warm, hot, drawing;
    const auto start = clock_type::now();
    if (!plan_.many) world_->begin();
    int from = 0;
    for (unsigned i = 0; i < warm_iterations; ++i) {
      from = oo1::random_numbers{i + 1}.up_to(parts_);
      warm.push_back(iterate(from));
    }
    for (unsigned i = 0; i < plan_.hot; ++i) hot.push_back(iterate(from));
    if (!plan_.many) world_->commit();
    const double total = milliseconds_since(start);
    if (plan_.shows_iterations && !plan_.many) {
      world_->begin();
      (void)iterate(from);
      doing_.draws_numbers = true;
      for (unsigned i = 0; i < plan_.hot; ++i) drawing.push_back(iterate(from));
      world_->commit();
    }
    for (const auto& [asked, given] : answers_)
      if (!(given == planned_traversal(asked, oo1::hops, parts_, doing_.percent)))
        throw std::runtime_error("wrong answer");
    return {{"warm", warm},
            {"hot", hot},
            {"drawing", drawing},
            {"total", total},
            {"pages", world_->page_reads()},
            {"log_bytes", world_->log_bytes()},
            {"waited", tenure::os::pages_waited_for()}};
  }

 private:
  static double milliseconds_since(clock_type::time_point start) {
    return std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
  }
  double iterate(int from) {
    const auto start = clock_type::now();
    if (plan_.many) world_->begin();
    const visits given = world_->traverse(from, oo1::hops, doing_);
    if (plan_.many) world_->commit();
    const double taken = milliseconds_since(start);
    answers_.insert_or_assign(from, given);
    return taken;
  }

  const plan& plan_;
  const int parts_;
  workload doing_;
  std::unique_ptr<world> world_;
  std::map<int, visits> answers_;
};

void run_child(const program_options& how) {
  if (!how.group.empty()) enter_memory_limit(how.group);
  const raised_priority priority;
  const plan& of = plan_named(how.cases.at(0));
  if (how.child != "create") return tell_parent(run(how, of).measure());
  if (of.share == 0)
    make_parts<small_part>(how.directory, how.parts_of(of));
  else
    make_parts<wide_part>(how.directory, how.parts_of(of));
  tell_parent(nlohmann::json::object());
}

// --- The program ---

class all_runs {
 public:
  explicit all_runs(const program_options& how) : how_(how), made_(how.directory) {
    for (const version& each : all_versions()) {
      settings_[each.name] = each.what;
      if (how.versions.empty() || std::ranges::find(how.versions, each.name) != how.versions.end())
        versions_.push_back(each.name);
    }
    for (const std::string& each : how.versions)
      if (!settings_.contains(each)) throw std::invalid_argument("there is no version " + each + "; --list names them");
  }
  ~all_runs() { made_.clear(); }
  all_runs(const all_runs&) = delete;
  all_runs& operator=(const all_runs&) = delete;

  bool measure() {
    bool good = true;
    for (const plan& each : all_plans())
      if (is_wanted(each.name, how_.cases)) good = measure(each) && good;
    return good;
  }

 private:
  std::vector<std::string> arguments(const std::string& task, const plan& of) const {
    return {"--child",
            task,
            "--cases",
            of.name,
            "--parts",
            std::to_string(how_.parts),
            "--pool-pages",
            std::to_string(how_.pool_pages),
            "--small-pool-pages",
            std::to_string(how_.small_pool_pages)};
  }
  measurement measure(const plan& of, const std::string& version) {
    // Each version has a database of its own: what it changes, or has in the log, is no other's.
    const auto& directory = made_.get(version, of.share == 0 ? "small" : "wide", arguments("create", of), "");
    measurement m;
    m["still_cached"] = drop_directory_from_cache(directory);
    auto words = arguments("measure", of);
    words.insert(words.end(), {"--versions", version, "--dir", directory.string()});
    std::optional<memory_limit> limit;
    if (how_.memory != 0 && version != plain)
      words.insert(words.end(), {"--group", limit.emplace(how_.memory << 20).group()});
    const auto said = tenure::bench::run_child(words);
    m["cold"] = said.at("warm").at(0);
    m["warm"] = said.at("warm").back();
    if (!said.at("hot").empty()) m["hot"] = summarize(said.at("hot").get<std::vector<double>>()).median;
    if (!said.at("drawing").empty()) m["drawing"] = summarize(said.at("drawing").get<std::vector<double>>()).median;
    m["total"] = said.at("total");
    m["pages"] = said.at("pages");
    m["log_bytes"] = said.at("log_bytes");
    m["waited"] = said.at("waited");
    return m;
  }
  bool measure(const plan& of) {
    std::vector<entrant> entrants;
    for (const std::string& each : versions_)
      if (each != plain) entrants.push_back({each, [&, each] { return measure(of, each); }, plain});
    const std::string compared = of.shows_iterations ? "hot" : "total";
    const auto outcomes = run_rounds(entrants, {{plain, [&] { return measure(of, plain); }}},
                                     {.repeat = how_.repeat, .share_baseline = true, .compared = compared});
    const auto show = [&](const std::string& name, const std::string& key, const std::string& what) {
      shown_case as{
          "epvm",          how_.memory == 0 ? name : "large-" + name, what,      key,
          key == compared, describe(how_.machine, how_.quick),        settings_, {"pages", "log_bytes", "waited"}};
      as.extra["parts"] = how_.parts_of(of);
      as.extra["memory"] = how_.memory;
      return show_case(as, outcomes, how_.json);
    };
    if (!of.shows_iterations) return show(of.name, "total", of.what);
    bool good = show(of.name + "-cold", "cold", of.what + "; from a cold page cache");
    good = show(of.name + "-warm", "warm", of.what + "; the tenth iteration") && good;
    good = show(of.name + "-hot", "hot", of.what + "; the part of the tenth iteration again") && good;
    return (of.many ||
            show(of.name + "-drawing", "drawing", of.what + "; the same, with a random number drawn at each part")) &&
           good;
  }

  static constexpr const char* plain = "transient";
  const program_options& how_;
  made_databases made_;
  std::vector<std::string> versions_;
  std::map<std::string, std::string> settings_;
};

void list() {
  table versions{{"version", "what it does"}};
  for (const version& each : all_versions()) versions.add({each.name, each.what});
  versions.print();
  table cases{{"case", "what it is"}};
  for (const plan& each : all_plans()) cases.add({each.name, each.what});
  fmt::print("\n");
  cases.print();
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  tenure::tools::command_line app{"Object caching, page caching and swizzling: the versions of EPVM"};
  app.option("--parts", how.parts, "number of parts; an eighth of it where parts are wide").shows_default();
  app.option("--pool-pages", how.pool_pages, "page buffers").shows_default();
  app.option("--small-pool-pages", how.small_pool_pages, "page buffers of versions with a small pool").shows_default();
  app.option("--versions", how.versions, "only these").separated_by_commas();
  app.option("--cases", how.cases, "only these; the beginning of a name up to a dash will do").separated_by_commas();
  app.option("--memory", how.memory,
             "MiB that a run may use, the page cache of its files included; 0: all; needs root");
  app.flag("--list", how.lists, "the versions and the cases");
  add_common_options(app, how, "runs of each version", "three runs");
  app.option("--child", how.child, "one run: create, measure").hidden();
  app.option("--group", how.group, "").hidden();
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
    if (how.quick && !app.has("--repeat")) how.repeat = 3;
    const benchmark_run running("bench_epvm", how);
    return all_runs(how).measure();
  };
  return run_program("bench_epvm", work, how.child.empty() ? stderr : stdout);
}
