// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_oo7: the OO7 benchmark as in [Hosking & Chen 1999, section 7]. Every run is a process of its own that opens the
// database from a cold page cache, iterates an operation five times, and checks counts and sums; a run of a contender comes
// right after a run of the same program over plain objects.
#include <chrono>
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "command_line.hpp"
#include "harness/child.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "oo7/run.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::oo7;

struct program_options : common_options {
  std::vector<std::string> configurations{"small3", "medium3"};
  std::vector<std::string> contenders, operations, cases;
  unsigned repeat_reading = 15;  // T1 and T6: their ratio to plain objects is what the heap is about
  // Of a child process:
  std::string child, mode = "one", expected;
};

const contender_kind& kind_named(const std::string& name) {
  for (const auto& kind : all_contenders())
    if (kind.name == name) return kind;
  throw std::invalid_argument("no contender is named " + name);
}

// --- A process of its own ---

void run_child(const program_options& how) {
  const raised_priority priority;
  const configuration size = configuration_of(how.configurations.at(0));
  const auto who = kind_named(how.contenders.at(0)).make(how.directory, size);
  if (who == nullptr) throw std::runtime_error(how.contenders.at(0) + " is not built");
  nlohmann::json said = nlohmann::json::object();
  if (how.child == "create") {
    who->create();
    who->close();
  } else if (how.child == "answers") {
    said = find_answers(*who, size);
  } else {
    const case_plan& what = case_named(how.operations.at(0));
    // Who runs one by hand has nobody to tell the answers.
    const auto answers = how.expected.empty() ? find_answers(*make_plain(how.directory, size), size)
                                              : nlohmann::json::parse(how.expected);
    const expected_answers expected{answers.at("counts").at(std::string{name_of(what.timed)}),
                                    totals_from(answers.at("sums"))};
    said = measure(*who, what, how.mode == "many" ? chaining::many : chaining::one, expected);
  }
  tell_parent(said);
}

// --- The program ---

class configuration_run {
 public:
  configuration_run(const program_options& how, const std::string& name)
      : how_(how), name_(name), size_(configuration_of(name)), made_(how.directory) {
    for (const auto& kind : all_contenders()) {
      if (kind.name != "plain" && !is_chosen(kind)) continue;
      const auto one = kind.make(how.directory, size_);
      if (one == nullptr) {
        fmt::print("{}: not built\n", kind.name);
        continue;
      }
      kinds_.push_back(&kind);
      settings_[kind.name] = one->setting();
      persistent_[kind.name] = one->persistent();
    }
  }
  ~configuration_run() { made_.clear(); }
  configuration_run(const configuration_run&) = delete;
  configuration_run& operator=(const configuration_run&) = delete;

  bool run() {
    find_expected_answers();
    bool good = true;
    for (const case_plan& one : all_cases()) {
      if (!is_asked_for(one)) continue;
      good = run_case(one, chaining::one) && good;
      good = run_case(one, chaining::many) && good;
    }
    return good;
  }

  // Every operation by every contender, counts and sums compared with those of plain objects, and with what is known.
  bool check_answers() {
    find_expected_answers();
    bool good = true;
    for (const auto* kind : kinds_) {
      try {
        const scratch_directory scratch{how_.directory, kind->name};
        if (tenure::bench::run_child(arguments("answers", kind->name, scratch.path())) != answers_)
          throw std::runtime_error("wrong answer: not those of plain objects");
        fmt::print("{}: all operations on {} give the right answers\n", kind->name, name_);
      } catch (const std::exception& e) {
        fmt::print("{} FAILED: {}\n", kind->name, e.what());
        good = false;
      }
    }
    fmt::print("\n");
    return good;
  }

 private:
  bool is_chosen(const contender_kind& kind) const {
    if (how_.contenders.empty()) return !kind.only_if_named;
    return std::ranges::find(how_.contenders, kind.name) != how_.contenders.end();
  }
  // Large databases have fewer cases unless they are asked for.
  bool is_asked_for(const case_plan& one) const {
    if (!how_.cases.empty()) {
      for (const chaining mode : {chaining::one, chaining::many})
        for (const auto& shown : parts_of(one, mode))
          if (is_wanted(shown.name, how_.cases)) return true;
      return false;
    }
    if (!how_.operations.empty()) return std::ranges::find(how_.operations, one.name) != how_.operations.end();
    static const std::vector<std::string> few{"T1", "T6", "T2B", "insert"};
    static const std::vector<std::string> some{"T1", "T2A", "T2B", "T6", "T7", "Q1", "Q2", "Q3", "insert", "delete"};
    const auto& all = how_.quick ? few : some;
    return (!how_.quick && name_.starts_with("small")) || name_ == "tiny" ||
           std::ranges::find(all, one.name) != all.end();
  }
  unsigned most_runs_of_changes(const contender_kind& kind) const {
    return how_.quick ? std::min(kind.most_runs_of_changes, 1U) : kind.most_runs_of_changes;
  }
  static bool changes(operation what) {
    switch (what) {
      case operation::t2a:
      case operation::t2b:
      case operation::t2c:
      case operation::t3a:
      case operation::t3b:
      case operation::t3c:
      case operation::t5do:
      case operation::t5undo:
      case operation::insert:
      case operation::remove: return true;
      default: return false;
    }
  }
  std::vector<std::string> arguments(const std::string& task, const std::string& contender,
                                     const std::filesystem::path& directory) const {
    return {"--child", task, "--contenders", contender, "--configurations", name_, "--dir", directory.string()};
  }
  void find_expected_answers() {
    if (answers_.empty()) answers_ = tenure::bench::run_child(arguments("answers", "plain", how_.directory));
  }

  measurement measure(const contender_kind& kind, const case_plan& what, chaining mode) {
    std::filesystem::path directory = how_.directory;
    measurement m;
    if (persistent_.at(kind.name)) {
      directory =
          made_.get(kind.name, name_, {"--child", "create", "--contenders", kind.name, "--configurations", name_},
                    kind.build_environment);
      m["still_cached"] = drop_directory_from_cache(directory);
    }
    auto words = arguments("measure", kind.name, directory);
    words.insert(words.end(), {"--operations", what.name, "--mode", mode == chaining::many ? "many" : "one",
                               "--expected", answers_.dump()});
    const auto said = tenure::bench::run_child(words);
    const auto& times = said.at("iterations");
    if (said.contains("open")) {
      m["open_ms"] = said["open"];
      m["cold"] = times.at(0);
    }
    m["hot"] = times.at(1).get<double>() + times.at(2).get<double>() + times.at(3).get<double>();
    const auto& commits = said.at("commits");
    m["commit_ms"] = commits.back();
    if (mode == chaining::many) {
      m["commit_ms"] = commits.at(1).get<double>() + commits.at(2).get<double>() + commits.at(3).get<double>();
      m["commit_cold_ms"] = commits.at(0);
    }
    for (const auto& [name, value] : said.at("breakdown").items()) m[name] = value;
    return m;
  }

  // What is shown of the rounds of one plan and mode.
  struct part {
    std::string name, key, what;
    std::vector<std::string> more;
  };
  std::vector<part> parts_of(const case_plan& one, chaining mode) const {
    const bool many = mode == chaining::many;
    const bool changes_structure = one.timed == operation::insert || one.timed == operation::remove;
    const std::string hot = "iterations 2 to 4 together", cold = "iteration 1, from a cold page cache";
    const std::string each = many ? ", each with its durable commit" : ", in one transaction";
    if (one.name == "CU")
      return many ? std::vector<part>{} : std::vector{part{"CU-" + name_, "cold", "T2A after T1, " + cold + each, {}}};
    if (one.name == "WU")
      return many ? std::vector<part>{} : std::vector{part{"WU-" + name_, "hot", "T2A after T1, " + hot + each, {}}};
    if (changes_structure && !many) return {};
    const std::string in = changes_structure ? "" : many ? "-hot-many" : "-hot";
    const std::string chain = many && !changes_structure ? "-many" : "";
    std::vector<std::string> more_cold{"open_ms", "still_cached"};
    if (many) more_cold.emplace_back("commit_cold_ms");
    return {{one.name + in + "-" + name_, "hot", hot + each, {"commit_ms"}},
            {one.name + "-cold" + chain + "-" + name_, "cold", cold + each, more_cold}};
  }

  bool run_case(const case_plan& one, chaining mode) {
    const auto parts = parts_of(one, mode);
    if (parts.empty()) return true;
    const auto& plain = *kinds_.front();
    std::vector<entrant> entrants;
    for (const auto* kind : kinds_)
      if (kind != &plain)
        entrants.push_back({kind->name, [&, kind] { return measure(*kind, one, mode); }, "plain",
                            changes(one.timed) ? most_runs_of_changes(*kind) : 0});
    round_options rounds;
    const bool reading = mode == chaining::one && (one.timed == operation::t1 || one.timed == operation::t6);
    rounds.repeat = reading && !how_.quick ? std::max(how_.repeat, how_.repeat_reading) : how_.repeat;
    rounds.compared = "hot";
    const auto outcomes = run_rounds(entrants, {{"plain", [&] { return measure(plain, one, mode); }}}, rounds);
    bool good = true;
    for (const part& shown : parts) {
      shown_case as{"oo7",     shown.name,         shown.what,
                    shown.key, shown.key == "hot", describe(how_.machine, how_.quick),
                    settings_, shown.more};
      as.extra["configuration"] = name_;
      if (shown.key == "hot") add_breakdown(outcomes, as.more);
      good = show_case(as, outcomes, how_.json) && good;
      if (shown.key == "hot") show_types(as, outcomes, how_.json);
    }
    return good;
  }

  const program_options& how_;
  std::string name_;
  configuration size_;
  made_databases made_;
  std::vector<const contender_kind*> kinds_;  // those that are built and chosen, plain first
  std::map<std::string, std::string> settings_;
  std::map<std::string, bool> persistent_;
  nlohmann::json answers_;
};

bool run(program_options& how) {
  const benchmark_run running("bench_oo7", how);
  const auto start = std::chrono::steady_clock::now();
  bool good = configuration_run{how, "tiny"}.check_answers();
  for (const auto& name : how.configurations) good = configuration_run{how, name}.run() && good;
  fmt::print("{} after {:.0f} s, load {}\n", good ? "all answers right" : "FAILED",
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
             describe_machine(how.directory).load);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  tenure::tools::command_line app{
      "OO7: traversals, queries and changes of a design database, as in Hosking & Chen 1999, section 7"};
  app.option("--configurations", how.configurations, "tiny, small3, small6, small9, medium3 … large9")
      .separated_by_commas()
      .shows_default();
  app.option("--operations", how.operations, "only these: T1, T2A, …, Q1, …, CU, WU, insert, delete")
      .separated_by_commas();
  app.option("--cases", how.cases, "only what these need; the beginning of a name up to a dash will do")
      .separated_by_commas();
  app.option("--contenders", how.contenders, "only these").separated_by_commas();
  add_common_options(app, how, "runs of each contender (T1 and T6: at least 15, unless quick)",
                     "a short form: small3, four operations, three runs");
  app.option("--child", how.child, "one run, as valgrind needs it: create, answers, measure").hidden();
  app.option("--mode", how.mode, "one or many").hidden();
  app.option("--expected", how.expected, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  const auto work = [&] {
    if (!how.child.empty()) {
      run_child(how);
      return true;
    }
    if (how.quick) {
      if (!app.has("--configurations")) how.configurations = {"small3"};
      if (!app.has("--repeat")) how.repeat = 3;
    }
    return run(how);
  };
  return run_program("bench_oo7", work, how.child.empty() ? stderr : stdout);
}
