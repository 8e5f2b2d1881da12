// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Packages that depend on each other, in SQLite: a row a package, a row a dependency.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include <sqlite3.h>

namespace {

void check(sqlite3* database, int result) {
  if (result == SQLITE_OK || result == SQLITE_DONE || result == SQLITE_ROW) return;
  std::fprintf(stderr, "%s\n", sqlite3_errmsg(database));
  std::exit(1);
}

void run(sqlite3* database, const char* statement) {
  check(database, sqlite3_exec(database, statement, nullptr, nullptr, nullptr));
}

class query {
 public:
  query(sqlite3* database, const char* text) : database_(database) {
    check(database, sqlite3_prepare_v2(database, text, -1, &statement_, nullptr));
  }
  ~query() { sqlite3_finalize(statement_); }
  query(const query&) = delete;
  query& operator=(const query&) = delete;

  void start(std::initializer_list<std::int64_t> values) {
    check(database_, sqlite3_reset(statement_));
    int place = 0;
    for (const std::int64_t value : values) check(database_, sqlite3_bind_int64(statement_, ++place, value));
  }
  bool step() {
    const int result = sqlite3_step(statement_);
    check(database_, result);
    return result == SQLITE_ROW;
  }
  [[nodiscard]] std::int64_t column(int i) const { return sqlite3_column_int64(statement_, i); }

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::int64_t count = std::strtoll(argv[2], nullptr, 10);
  sqlite3* database = nullptr;
  check(database, sqlite3_open(argv[1], &database));
  run(database, "CREATE TABLE package (id INTEGER PRIMARY KEY, kib INTEGER)");
  run(database, "CREATE TABLE depends (id INTEGER, needed INTEGER, PRIMARY KEY (id, needed)) WITHOUT ROWID");
  run(database, "BEGIN");
  {
    query package(database, "INSERT INTO package VALUES (?, ?)"),
        depends(database, "INSERT INTO depends VALUES (?, ?)");
    for (std::int64_t i = 0; i < count; ++i) {
      package.start({i, i % 1000});
      package.step();
      for (std::int64_t j = 1; j <= 3 && j <= i; ++j) {
        depends.start({i, i - j});
        depends.step();
      }
    }
  }
  run(database, "COMMIT");

  std::vector<std::int64_t> reached{count - 1};
  std::int64_t kib = 0;
  {
    query package(database, "SELECT kib FROM package WHERE id = ?"),
        depends(database, "SELECT needed FROM depends WHERE id = ?");
    for (std::size_t i = 0; i < reached.size() && reached.size() < 1000; ++i) {
      package.start({reached[i]});
      if (package.step()) kib += package.column(0);
      depends.start({reached[i]});
      while (depends.step()) reached.push_back(depends.column(0));
    }
  }
  sqlite3_close(database);
  std::printf("%lld KiB in a closure\n", static_cast<long long>(kib));
}
