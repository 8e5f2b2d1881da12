// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo1/run.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/instrumentation.hpp"
#include "harness/statistics.hpp"

namespace tenure::bench::oo1 {
namespace {

using clock = std::chrono::steady_clock;
constexpr int looked_up = 1000, inserted = 100;

double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

// The parts of one iteration.
std::vector<int> draw_parts(kind what, int iteration, int parts) {
  random_numbers random{static_cast<std::uint64_t>(iteration) + 1};
  std::vector<int> ids(what == kind::lookup ? looked_up : 1);
  for (int& id : ids) id = random.up_to(parts);
  return ids;
}

class run {
 public:
  run(contender& who, const case_plan& what, int parts, const measuring& how)
      : who_(who), what_(what), parts_(parts), how_(how) {}

  nlohmann::json measure() {
    nlohmann::json said;
    const auto opening = clock::now();
    if (who_.persistent()) {
      who_.open();
      said["open"] = milliseconds_since(opening);
    } else {
      who_.create();
    }
    if (!changes()) who_.begin();
    std::vector<double> warm, hot;
    for (int i = 0; i < how_.warm_iterations; ++i) warm.push_back(iterate(draw_parts(what_.what, i, parts_)));
    const auto last = draw_parts(what_.what, how_.warm_iterations - 1, parts_);
    start_instrumentation();
    for (int i = 0; i < how_.hot_iterations; ++i) hot.push_back(iterate(last));
    stop_instrumentation();
    if (what_.what == kind::update) said["fit"] = sweep(last.front(), hot.back());
    const nlohmann::json phases = changes() ? hot_phases(last) : nlohmann::json::object();
    if (!changes()) who_.commit();
    said["breakdown"] = who_.breakdown();
    said["breakdown"].update(phases);
    check_sum();
    who_.close();
    check_answers();
    said["warm"] = warm;
    said["hot"] = hot;
    return said;
  }

 private:
  struct question {
    std::vector<int> parts;
    answer given;
  };
  bool changes() const { return what_.what == kind::insert || what_.what == kind::update; }

  // Milliseconds. Answers are judged later: what the judge keeps in memory would lie between the objects.
  double iterate(const std::vector<int>& parts) {
    question asked{parts, {}};
    const auto start = clock::now();
    if (changes()) who_.begin();
    operate(asked);
    if (changes()) who_.commit();
    const double taken = milliseconds_since(start);
    return settle(std::move(asked), taken);
  }
  void operate(question& asked) {
    const std::vector<int>& parts = asked.parts;
    switch (what_.what) {
      case kind::lookup: asked.given = who_.look_up(parts); break;
      case kind::traversal: asked.given = who_.traverse(parts.front(), 0); break;
      case kind::reverse: asked.given = who_.traverse_reverse(parts.front()); break;
      case kind::insert: who_.insert(parts_ + 1, inserted); break;
      case kind::update: asked.given = who_.traverse(parts.front(), what_.percent); break;
    }
  }
  // Takes back what was inserted, and keeps the answer. The time, of as many visits as others make.
  double settle(question asked, double taken) {
    if (what_.what == kind::insert) {
      check_inserted();
      who_.begin();
      who_.remove(parts_ + 1, inserted);
      who_.commit();
      return taken;
    }
    if (what_.what == kind::reverse)
      taken *= static_cast<double>(traversal_visits) / static_cast<double>(asked.given.visited);
    updated_ += asked.given.updated;
    asked_.push_back(std::move(asked));
    return taken;
  }
  // The medians of more hot iterations: running, and the phases of the commit. Nothing if the contender has none.
  nlohmann::json hot_phases(const std::vector<int>& parts) {
    std::vector<double> running, finding, writing;
    for (int i = 0; i < how_.hot_iterations; ++i) {
      question asked{parts, {}};
      const auto start = clock::now();
      who_.begin();
      operate(asked);
      running.push_back(milliseconds_since(start));
      const auto phases = who_.commit_in_phases();
      (void)settle(std::move(asked), 0);
      if (!phases) return nlohmann::json::object();
      finding.push_back(phases->finding);
      writing.push_back(phases->writing);
    }
    return {{"running-ms", summarize(running).median},
            {"finding-ms", summarize(finding).median},
            {"writing-ms", summarize(writing).median}};
  }
  nlohmann::json sweep(int from, double one_ms) {
    std::vector<int> tried;
    std::vector<double> times;
    std::uint64_t updated_each = 0;
    for (const int n : how_.traversals_per_transaction) {
      if (one_ms * n > how_.longest_ms && tried.size() >= 2) break;
      answer all;
      const auto start = clock::now();
      who_.begin();
      for (int i = 0; i < n; ++i) all += who_.traverse(from, what_.percent);
      who_.commit();
      times.push_back(milliseconds_since(start));
      tried.push_back(n);
      updated_ += all.updated;
      updated_each = all.updated / static_cast<std::uint64_t>(n);
      if (all.visited != traversal_visits * static_cast<std::uint64_t>(n)) throw wrong("traversals of a transaction");
    }
    return {{"n", tried}, {"ms", times}, {"updated", updated_each}};
  }

  static std::runtime_error wrong(const std::string& what) { return std::runtime_error("wrong answer: " + what); }
  // The new parts are found, and lead somewhere.
  void check_inserted() {
    std::vector<int> ids(inserted);
    for (int i = 0; i < inserted; ++i) ids[static_cast<std::size_t>(i)] = parts_ + 1 + i;
    answer planned;
    for (const int id : ids) {
      const planned_part part = plan_part(id, parts_ + inserted);
      planned += {1, checksum_of(part.build, part_type(part.type)), 0};
    }
    who_.begin();
    const answer found = who_.look_up(ids);
    const std::uint64_t visited = who_.traverse(ids.front(), 0).visited;
    who_.commit();
    if (!(found == planned) || visited != traversal_visits) throw wrong("inserted parts");
  }
  // All parts are there, and x and y are what the updates made of them.
  void check_sum() {
    std::uint64_t planned = 2 * updated_;
    for (int id = 1; id <= parts_; ++id) {
      const planned_part part = plan_part(id, parts_);
      planned += static_cast<std::uint64_t>(part.x + part.y);
    }
    who_.begin();
    const answer found = who_.sum();
    who_.commit();
    if (found.visited != static_cast<std::uint64_t>(parts_)) throw wrong("number of parts");
    // Earlier runs have updated as well; each increments x and y, so the difference is even.
    if (found.checksum < planned || (found.checksum - planned) % 2 != 0 ||
        (!who_.persistent() && found.checksum != planned))
      throw wrong(fmt::format("sum of x and y: {}, not {}", found.checksum, planned));
  }
  void check_answers() const {
    std::optional<planned_reverse> reverse;
    if (what_.what == kind::reverse) reverse.emplace(parts_);
    for (const question& one : asked_) {
      answer right;
      switch (what_.what) {
        case kind::lookup: right = planned_lookup(one.parts, parts_); break;
        case kind::reverse: right = reverse->traversal(one.parts.front()); break;
        case kind::traversal:
        case kind::update:
          right = planned_traversal(one.parts.front(), parts_, what_.percent);
          if (right.visited != traversal_visits) throw wrong("the plan");
          break;
        case kind::insert: continue;
      }
      if (!(one.given == right))
        throw wrong(fmt::format("{} from part {}: {} visited, {} updated, checksum {}; not {}, {}, {}", what_.name,
                                one.parts.front(), one.given.visited, one.given.updated, one.given.checksum,
                                right.visited, right.updated, right.checksum));
    }
  }

  contender& who_;
  const case_plan& what_;
  int parts_;
  const measuring& how_;
  std::vector<question> asked_;
  std::uint64_t updated_ = 0;
};

}  // namespace

std::span<const case_plan> all_cases() {
  static const case_plan all[] = {
      {"lookup", kind::lookup},         {"traversal", kind::traversal},    {"reverse", kind::reverse},
      {"insert", kind::insert},         {"update-p00", kind::update, 0},   {"update-p05", kind::update, 5},
      {"update-p10", kind::update, 10}, {"update-p15", kind::update, 15},  {"update-p20", kind::update, 20},
      {"update-p50", kind::update, 50}, {"update-p100", kind::update, 100}};
  return all;
}

const case_plan& case_named(const std::string& name) {
  for (const auto& one : all_cases())
    if (one.name == name) return one;
  throw std::invalid_argument("OO1 has no operation " + name);
}

int parts_from(const std::string& text) {
  std::size_t end = 0;
  const int number = std::stoi(text, &end);
  const std::string rest = text.substr(end);
  if (number <= 0 || (rest != "" && rest != "k" && rest != "M"))
    throw std::invalid_argument(text + " is no number of parts, such as 20k or 1M");
  return number * (rest == "k" ? 1000 : rest == "M" ? 1'000'000 : 1);
}

nlohmann::json measure(contender& who, const case_plan& what, int parts, const measuring& how) {
  return run{who, what, parts, how}.measure();
}

}  // namespace tenure::bench::oo1
