// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// bench_ambiguous: figures 7 and 8 of [Hosking & Chen 1999]: what becomes persistent when an OO7 database is generated, and by its
// operation Insert, by type; and what a collection keeps because of words that look like pointers only.
#include <cstdint>

#include <fmt/format.h>

#include "command_line.hpp"
#include "harness/child.hpp"
#include "harness/object_cases.hpp"
#include "harness/program.hpp"
#include "oo7/ambiguous.hpp"

namespace {

using namespace tenure::bench;
using namespace tenure::bench::oo7;

struct program_options : common_options {
  std::vector<std::string> configurations{"small3"};
  std::vector<std::uint64_t> words{0, 1, 10, 100};
  std::uint64_t rounds = 100;
  std::string child;  // "generation" or "insert"
};

measurement run_once(const program_options& how, const std::string& configuration, const std::string& task,
                     std::uint64_t words) {
  const scratch_directory scratch{how.directory, task};
  const auto said =
      run_child({"--child", task, "--configurations", configuration, "--rounds", std::to_string(how.rounds), "--words",
                 std::to_string(words), "--dir", scratch.path().string()});
  measurement all;
  for (const auto& [name, value] : said.items()) all[name] = value;
  return all;
}

double median_of(const outcome& of, const std::string& key) { return summarize(of.values(key)).median; }

class figures {
 public:
  figures(const program_options& how, std::string configuration)
      : how_(how), configuration_(std::move(configuration)) {}

  bool run() {
    std::vector<entrant> entrants{{"generation", [&] { return run_once(how_, configuration_, "generation", 0); }, ""}};
    for (const std::uint64_t words : how_.words)
      entrants.push_back({fmt::format("insert-{}", words),
                          [&, words] { return run_once(how_, configuration_, "insert", words); }, ""});
    const auto outcomes = run_rounds(entrants, {}, {.repeat = how_.repeat, .compared = "kept-bytes"});
    for (const outcome& of : outcomes) {
      if (of.failure.empty()) continue;
      fmt::print("{} FAILED: {}\n", of.name, of.failure);
      return false;
    }
    show_types("figure-7", "what became persistent when the database was generated", outcomes.at(0));
    show_types("figure-8", "what became persistent by one Insert", outcomes.at(1));
    show_kept(outcomes);
    return true;
  }

 private:
  void record(const std::string& name, const outcome& of, const std::string& metric) const {
    result line;
    line.bench = "ambiguous";
    line.contender = "tenure";
    line.case_name = name + "-" + configuration_;
    line.metric = metric;
    line.value = summarize(of.values(metric));
    line.extra = describe(how_.machine, how_.quick);
    how_.json.add(line);
  }
  void show_types(const std::string& name, const std::string& what, const outcome& of) const {
    fmt::print("{}-{}: {}, by type; and what only ambiguous roots keep of the database then\n", name, configuration_,
               what);
    table rows{{"type", "objects", "bytes", "kept objects", "kept bytes"}};
    const std::string prefix = "stabilized-objects/";
    double objects = 0, bytes = 0;
    for (const auto& [key, value] : of.runs.front()) {
      if (!key.starts_with(prefix)) continue;
      const std::string type = key.substr(prefix.size());
      std::vector<std::string> row{type};
      for (const char* metric :
           {"stabilized-objects/", "stabilized-bytes/", "ambiguous-objects/", "ambiguous-bytes/"}) {
        row.push_back(number(median_of(of, metric + type)));
        record(name, of, metric + type);
      }
      objects += median_of(of, key);
      bytes += median_of(of, "stabilized-bytes/" + type);
      rows.add(row);
    }
    rows.add({"all", number(objects), number(bytes), number(median_of(of, "ambiguous-objects")),
              number(median_of(of, "ambiguous-bytes"))});
    rows.print();
    fmt::print("\n");
  }
  void show_kept(const std::vector<outcome>& outcomes) const {
    fmt::print(
        "kept-{}: what only ambiguous roots keep, after {} rounds of Insert and of Delete that destroys nothing; with "
        "so many\n"
        "words of the program that are pointers to what was taken out. \"by pages\": if pages of 8 KiB were kept as a "
        "whole\n",
        configuration_, how_.rounds);
    const std::vector<std::string> metrics{
        "ambiguous-objects", "ambiguous-bytes", "ambiguous-transient", "dropped-objects",  "dropped-bytes",
        "touched-pages",     "word-pages",      "kept-pages",          "by-pages-objects", "by-pages-bytes"};
    table rows{{"after", "objects", "[min .. max]", "bytes", "transient", "taken out", "bytes", "pages touched",
                "pages led to", "accurate pages", "by pages", "bytes"}};
    for (const outcome& of : outcomes) {
      std::vector<std::string> row{of.name};
      for (const auto& metric : metrics) {
        const auto values = of.values(metric);
        row.push_back(values.empty() ? "" : number(summarize(values).median));
        if (metric == metrics.front()) row.push_back(range(summarize(values)));
        if (!values.empty()) record("kept-" + of.name, of, metric);
      }
      rows.add(row);
    }
    rows.print();
    fmt::print("\n");
  }

  const program_options& how_;
  const std::string configuration_;
};

}  // namespace

int main(int argc, char** argv) {
  program_options how;
  tenure::tools::command_line app{"What becomes persistent in OO7, by type, and what ambiguous roots keep"};
  app.option("--configurations", how.configurations, "tiny, small3, … as in bench_oo7")
      .separated_by_commas()
      .shows_default();
  app.option("--rounds", how.rounds, "of ten composite parts inserted and taken out").shows_default();
  app.option("--words", how.words, "so many pointers to what was taken out does the program still have")
      .separated_by_commas()
      .shows_default();
  add_common_options(app, how);
  app.option("--child", how.child, "").hidden();
  if (const auto status = app.parse_or_print(argc, argv)) return *status;
  const auto work = [&] {
    if (!how.child.empty()) {
      tell_parent(find_ambiguous(how.directory, configuration_of(how.configurations.at(0)),
                                 {how.child == "insert", how.rounds, how.words.at(0)}));
      return true;
    }
    if (how.quick) {
      if (!app.has("--repeat")) how.repeat = 2;
      if (!app.has("--rounds")) how.rounds = 10;
    }
    const benchmark_run running("bench_ambiguous", how);
    bool good = true;
    for (const auto& name : how.configurations) good = figures{how, name}.run() && good;
    return good;
  };
  return run_program("bench_ambiguous", work, how.child.empty() ? stderr : stdout);
}
