// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What making a new store costs, until it is durable, and with closing it; and a database of SQLite with one table.
#include <chrono>
#include <stdexcept>

#include <fmt/format.h>

#include "paging/chain.hpp"
#include "paging/figures.hpp"

#ifdef TENURE_HAVE_SQLITE
#include <sqlite3.h>
#endif

namespace tenure::bench::paging {
namespace {

using clock = std::chrono::steady_clock;

// In a directory that is there and empty, as files of any program would be.
std::filesystem::path fresh(const program_options& how) {
  const auto place = how.directory / "create";
  std::filesystem::remove_all(place);
  std::filesystem::create_directories(place);
  return place;
}

measurement create_store(const program_options& how) {
  const std::string place = fresh(how).string();
  const raised_priority priority;
  const auto start = clock::now();
  store made{place};
  const double created = milliseconds_since(start);
  made.close();
  return {{"create_ms", created}, {"create_close_ms", milliseconds_since(start)}};
}

#ifdef TENURE_HAVE_SQLITE
measurement create_sqlite(const program_options& how, const char* mode) {
  const std::string place = (fresh(how) / "file.sqlite").string();
  const raised_priority priority;
  const auto start = clock::now();
  sqlite3* opened = nullptr;
  const auto run = [&](const std::string& statement) {
    if (sqlite3_exec(opened, statement.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      throw std::runtime_error(fmt::format("sqlite: {}", sqlite3_errmsg(opened)));
  };
  if (sqlite3_open(place.c_str(), &opened) != SQLITE_OK) throw std::runtime_error("sqlite: cannot create");
  run(fmt::format("PRAGMA journal_mode={}", mode));
  run("PRAGMA synchronous=FULL");
  run("CREATE TABLE objects (id INTEGER PRIMARY KEY, value BLOB)");
  const double created = milliseconds_since(start);
  sqlite3_close_v2(opened);
  return {{"create_ms", created}, {"create_close_ms", milliseconds_since(start)}};
}
#endif

}  // namespace

bool run_creating(const program_options& how) {
  if (!how.wants("create")) return true;
  fmt::print("create: a new store in an empty directory, until it is durable, and until it is closed\n");
  round_options rounds;
  rounds.repeat = 5 * how.repeat;
  rounds.compared = "create_ms";
#ifdef TENURE_HAVE_SQLITE
  fmt::print("  baseline: a new database of SQLite with one table, rollback journal, synchronous=FULL; aim: 1.5\n");
  const std::string baseline = "sqlite";
  const std::map<std::string, std::function<measurement()>> baselines{
      {baseline, [&] { return create_sqlite(how, "DELETE"); }}};
  const std::vector<entrant> entrants{{"tenure", [&] { return create_store(how); }, baseline},
                                      {"sqlite-wal", [&] { return create_sqlite(how, "WAL"); }, baseline}};
#else
  fmt::print("  SQLite: not built\n");
  const std::map<std::string, std::function<measurement()>> baselines;
  const std::vector<entrant> entrants{{"tenure", [&] { return create_store(how); }, ""}};
#endif
  bool good = true;
  table rows{{"contender", "ms", "[min .. max]", "ratio", "[min .. max]", "with closing", "[min .. max]"}};
  for (const outcome& of : run_rounds(entrants, baselines, rounds)) {
    if (!of.failure.empty()) {
      fmt::print("  {} FAILED: {}\n", of.name, of.failure);
      good = false;
      continue;
    }
    std::vector<std::string> row{of.name};
    report(how, {of.name, "create", "create_ms", "ms", true}, of, row);
    report(how, {of.name, "create", "create_close_ms", "ms"}, of, row);
    rows.add(row);
  }
  rows.print();
  fmt::print("\n");
  return good;
}

}  // namespace tenure::bench::paging
