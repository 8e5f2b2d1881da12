// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo7/run.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/instrumentation.hpp"

namespace tenure::bench::oo7 {
namespace {

constexpr int iterations = 5;

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::uint64_t run_from_seed(contender& who, operation what) {
  restart_random();
  return who.run(what);
}

void require(std::uint64_t found, std::uint64_t expected, std::string_view what) {
  if (found != expected) throw std::runtime_error(fmt::format("wrong answer: {}: {}, not {}", what, found, expected));
}
void require(const totals& found, const totals& expected, std::string_view what) {
  if (!(found == expected))
    throw std::runtime_error(fmt::format("wrong answer: {}: {}; not {}", what, to_text(found), to_text(expected)));
}

bool is_its_own_inverse(operation what) {
  return what == operation::t2a || what == operation::t2b || what == operation::t3a || what == operation::t3b;
}

}  // namespace

const std::vector<case_plan>& all_cases() {
  static const std::vector<case_plan> all = [] {
    std::vector<case_plan> made;
    for (const auto& [what, name] : all_operations()) {
      case_plan one{std::string{name}, {}, what, {}, is_its_own_inverse(what)};
      if (what == operation::t5do) one.after = operation::t5undo;
      if (what == operation::t5undo) one.before = operation::t5do;
      if (what == operation::insert) one.after = operation::remove;
      if (what == operation::remove) one.before = operation::insert;
      made.push_back(one);
    }
    // T1, then T2A in the same transaction, of which T2A and the commit are timed. CU is its cold iteration, WU are the hot
    // ones: see oo7.cpp.
    made.push_back({"CU", operation::t1, operation::t2a, {}, true});
    made.push_back({"WU", operation::t1, operation::t2a, {}, true});
    return made;
  }();
  return all;
}

const case_plan& case_named(const std::string& name) {
  const auto found = std::ranges::find(all_cases(), name, &case_plan::name);
  if (found == all_cases().end()) throw std::invalid_argument("OO7 has no operation " + name);
  return *found;
}

nlohmann::json to_json(const totals& of) {
  return {of.atomics, of.connections, of.documents, of.composites, of.dates, of.x, of.y, of.lengths};
}
totals totals_from(const nlohmann::json& of) {
  return {of.at(0), of.at(1), of.at(2), of.at(3), of.at(4), of.at(5), of.at(6), of.at(7)};
}

nlohmann::json find_answers(contender& who, const configuration& how) {
  const golden_answers golden = golden_of(how);
  who.create();
  who.begin();
  const totals sums = who.sum();
  require(sums.dates, golden.dates.value_or(sums.dates), "sum of dates");
  require(sums.x, golden.x.value_or(sums.x), "sum of x");
  require(sums.lengths, golden.lengths.value_or(sums.lengths), "sum of lengths");
  nlohmann::json counts;
  for (const auto& [what, name] : all_operations()) {
    const std::uint64_t count = run_from_seed(who, what);
    const auto known = golden.counts.find(what);
    if (known != golden.counts.end()) require(count, known->second, name);
    counts[std::string{name}] = count;
    if (is_its_own_inverse(what)) require(run_from_seed(who, what), count, name);
    if (what != operation::insert) continue;
    const std::uint64_t t1 = run_from_seed(who, operation::t1);
    require(t1, golden.t1_after_insert.value_or(t1), "T1 after Insert");
    require(run_from_seed(who, operation::q7), golden.atomics_after_insert.value_or(who.sum().atomics),
            "atomic parts after Insert");
  }
  require(who.sum(), sums, "after all operations");
  who.commit();
  return {{"counts", counts}, {"sums", to_json(sums)}};
}

nlohmann::json measure(contender& who, const case_plan& what, chaining how, const expected_answers& expected) {
  using clock = std::chrono::steady_clock;
  nlohmann::json said;
  const auto opening = clock::now();
  if (who.persistent()) {
    who.open();
    said["open"] = milliseconds_since(opening);
  } else {
    who.create();
  }
  who.begin();
  std::vector<double> times, commits;
  for (int i = 0; i < iterations; ++i) {
    if (what.before) run_from_seed(who, *what.before);
    restart_random();
    if (i > 0) start_instrumentation();
    const auto start = clock::now();
    const std::uint64_t count = who.run(what.timed);
    const auto end = clock::now();
    if (how == chaining::many) {
      who.checkpoint();
      commits.push_back(milliseconds_since(end));
    }
    times.push_back(milliseconds_since(start));
    stop_instrumentation();
    require(count, expected.count, what.name);
    if (!what.after) continue;
    run_from_seed(who, *what.after);
    if (how == chaining::many) who.checkpoint();
  }
  const auto end = clock::now();
  who.commit();
  if (how == chaining::one) commits.push_back(milliseconds_since(end));
  said["breakdown"] = who.breakdown();
  who.begin();
  if (what.undoes_itself) run_from_seed(who, what.timed);
  require(who.sum(), expected.sums, "after " + what.name);
  who.commit();
  who.close();
  said["iterations"] = times;
  said["commits"] = commits;
  return said;
}

}  // namespace tenure::bench::oo7
