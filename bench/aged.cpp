// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_aged: OO7's traversals T1 and T6, hot and cold, in databases that have grown old: collected in the background, or once,
// or not at all, or destroyed by the program, or written anew in the end; with the database as it was generated beside. Every run is a process of its own,
// right after a run over plain objects.
#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "command_line.hpp"
#include "harness/child.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "oo7/aged.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::oo7;

struct program_options : common_options {
  std::vector<std::string> configurations{"small3"};
  std::vector<std::string> contenders;
  std::uint64_t rounds = 1000;
  // Of a child process:
  std::string child, operation, expected;
};

void run_child(const program_options& how) {
  const configuration size = configuration_of(how.configurations.at(0));
  const age& one = age_named(how.contenders.at(0));
  if (how.child == "create") return tell_parent(make_aged_store(one, how.rounds, how.directory, size));
  if (how.child == "answers") return tell_parent(find_answers_of_aged(one, how.rounds, how.directory, size));
  const raised_priority priority;
  const auto answers = nlohmann::json::parse(how.expected);
  const expected_answers expected{answers.at(how.operation), totals_from(answers.at("sums"))};
  const auto who = make_aged(one, how.rounds, how.directory, size);
  tell_parent(measure(*who, case_named(how.operation), chaining::one, expected));
}

class configuration_run {
 public:
  configuration_run(const program_options& how, const std::string& name) : how_(how), name_(name) {
    for (const age& one : all_ages())
      if (how.contenders.empty() ||
          std::find(how.contenders.begin(), how.contenders.end(), one.name) != how.contenders.end())
        ages_.push_back(&one);
  }

  bool run() {
    bool good = true;
    for (const char* operation : {"T1", "T6"}) good = run_case(operation) && good;
    return good;
  }

 private:
  // Made when it is first asked for.
  struct database {
    std::filesystem::path directory;
    nlohmann::json said;  // by who made it
  };

  nlohmann::json run_for(const std::string& task, const age& one, const std::filesystem::path& directory,
                         const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"--child",
                                   task,
                                   "--contenders",
                                   one.name,
                                   "--configurations",
                                   name_,
                                   "--rounds",
                                   std::to_string(how_.rounds),
                                   "--dir",
                                   directory.string()};
    words.insert(words.end(), more.begin(), more.end());
    return tenure::bench::run_child(words);
  }
  const nlohmann::json& answers_of(const age& one) {
    const auto [at, is_new] = answers_.try_emplace(one.is_new);
    if (is_new) at->second = run_for("answers", one, how_.directory);
    return at->second;
  }
  const database& database_of(const age& one) {
    const auto [at, is_new] = databases_.try_emplace(one.name);
    database& made = at->second;
    if (!is_new) return made;
    made.directory = how_.directory / (one.name + "-" + name_);
    std::filesystem::create_directories(made.directory);
    made.said = run_for("create", one, made.directory);
    return made;
  }

  measurement measure(const age& one, const std::string& operation) {
    measurement m;
    std::filesystem::path directory = how_.directory;
    const auto& answers = answers_of(one);
    if (!one.is_plain) {
      const database& in = database_of(one);
      directory = in.directory;
      for (const auto& [name, value] : in.said.items()) m[name] = value;
      m["still_cached"] = drop_directory_from_cache(directory);
    }
    const auto said = run_for("measure", one, directory, {"--operation", operation, "--expected", answers.dump()});
    const auto& times = said.at("iterations");
    if (said.contains("open")) {
      m["open_ms"] = said["open"];
      m["cold"] = times.at(0);
    }
    m["hot"] = times.at(1).get<double>() + times.at(2).get<double>() + times.at(3).get<double>();
    return m;
  }

  bool run_case(const std::string& operation) {
    std::vector<entrant> entrants;
    std::map<std::string, std::string> settings;
    for (const age* one : ages_) {
      settings[one->name] = one->setting;
      if (one->name != "plain") entrants.push_back({one->name, [&, one] { return measure(*one, operation); }, "plain"});
    }
    const age& plain = all_ages().front();
    const auto outcomes = run_rounds(entrants, {{"plain", [&] { return measure(plain, operation); }}},
                                     {.repeat = how_.repeat, .compared = "hot"});
    nlohmann::json extra = describe(how_.machine, how_.quick);
    extra["rounds"] = how_.rounds;
    const shown_case hot{"aged",
                         operation + "-hot-" + name_,
                         fmt::format("iterations 2 to 4 together, after {} rounds of ten parts replaced", how_.rounds),
                         "hot",
                         true,
                         extra,
                         settings,
                         {"round_ms", "cycles", "objects_mib", "file_mib", "rewrite_s", "rewrite_mib_s"}};
    const shown_case cold{
        "aged",   operation + "-cold-" + name_, "iteration 1, from a cold page cache", "cold", false, extra,
        settings, {"open_ms", "still_cached"}};
    const bool good = show_case(hot, outcomes, how_.json);
    return show_case(cold, outcomes, how_.json) && good;
  }

  const program_options& how_;
  const std::string name_;
  std::vector<const age*> ages_;
  std::map<bool, nlohmann::json> answers_;  // by whether the database is new
  std::map<std::string, database> databases_;
};

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  how.repeat = 15;
  tenure::tools::command_line app{"OO7's T1 and T6 in databases of which many parts were replaced, collected or not"};
  app.option("--configurations", how.configurations, "tiny, small3, … as in bench_oo7")
      .separated_by_commas()
      .shows_default();
  app.option("--contenders", how.contenders, "only these").separated_by_commas();
  app.option("--rounds", how.rounds, "in each of which ten composite parts are replaced").shows_default();
  add_common_options(app, how);
  app.option("--child", how.child, "").hidden();
  app.option("--operation", how.operation, "").hidden();
  app.option("--expected", how.expected, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  const auto work = [&] {
    if (!how.child.empty()) {
      run_child(how);
      return true;
    }
    if (how.quick) {
      if (!app.has("--repeat")) how.repeat = 3;
      if (!app.has("--rounds")) how.rounds = 50;
    }
    const benchmark_run running("bench_aged", how);
    bool good = true;
    for (const auto& name : how.configurations) good = configuration_run{how, name}.run() && good;
    return good;
  };
  return run_program("bench_aged", work, how.child.empty() ? stderr : stdout);
}
