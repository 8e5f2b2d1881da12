// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A transaction of a store and of a PostgreSQL database: an order is in both, or in none. PostgreSQL prepares (PREPARE
// TRANSACTION), the store commits, and with it the outcome; then PostgreSQL commits. What a crash leaves prepared there is
// ended by what the store knows, when the program is started again. PostgreSQL needs max_prepared_transactions > 0.
//
//     with_postgresql STORE CONNECTION [--stop prepared|committed]
//
// CONNECTION is what psql takes, as "host=/run/postgresql dbname=shop". --stop ends the program there, as a crash would.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <tenure/set.hpp>
#include <tenure/tenure.hpp>

namespace example {

struct orders {
  std::uint64_t count = 0;
  tenure::set<tenure::string> committed;  // ids of transactions that PostgreSQL may not have ended yet
};

}  // namespace example

namespace {

// Statements for psql, which ends at the first that fails.
class postgresql {
 public:
  explicit postgresql(const std::string& connection)
      : psql_("psql -XAtq -v ON_ERROR_STOP=1 -d '" + connection + "' ") {}
  // Returns what they have selected, one row a line.
  std::string run(const std::string& statements) const {
    std::FILE* const psql = ::popen((psql_ + "-c \"" + statements + "\"").c_str(), "r");
    if (psql == nullptr) throw std::runtime_error("cannot start psql");
    std::string rows;
    std::array<char, 1000> part{};
    while (std::fgets(part.data(), part.size(), psql) != nullptr) rows += part.data();
    if (::pclose(psql) != 0) throw std::runtime_error("psql has failed: " + statements);
    return rows;
  }

 private:
  const std::string psql_;
};

constexpr const char* prefix = "tenure-example/";

// What an earlier run has left. PostgreSQL has ended what is not prepared any more, and the store can forget it.
void settle(tenure::store& store, example::orders& all, const postgresql& other) {
  std::istringstream left(
      other.run("SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND gid LIKE '" +
                std::string(prefix) + "%'"));
  for (std::string id; std::getline(left, id);) {
    const bool committed = all.committed.contains(tenure::string(id));
    other.run((committed ? "COMMIT PREPARED '" : "ROLLBACK PREPARED '") + id + "'");
    std::cout << id << " was in doubt, and was " << (committed ? "committed" : "rolled back") << '\n';
  }
  store.transact([&] { all.committed.clear(); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"An order in a store and in PostgreSQL"};
  std::string directory, connection, stop;
  app.add_option("STORE", directory, "The store's directory")->required();
  app.add_option("CONNECTION", connection, "The database, as for psql")->required();
  app.add_option("--stop", stop, "End here, as a crash would: prepared or committed");
  CLI11_PARSE(app, argc, argv);
  try {
    tenure::store store(directory);
    auto& all = store.root<example::orders>("orders");
    const postgresql other(connection);
    other.run("CREATE TABLE IF NOT EXISTS orders (number bigint PRIMARY KEY)");
    settle(store, all, other);

    const std::uint64_t number = all.count + 1;
    const std::string id = prefix + std::to_string(number);
    other.run("BEGIN; INSERT INTO orders VALUES (" + std::to_string(number) + "); PREPARE TRANSACTION '" + id + "'");
    if (stop == "prepared") std::_Exit(0);
    store.transact([&] {  // this is the moment
      all.count = number;
      all.committed.insert(tenure::string(id));
    });
    if (stop == "committed") std::_Exit(0);
    other.run("COMMIT PREPARED '" + id + "'");

    std::cout << all.count << " here, " << other.run("SELECT count(*) FROM orders");
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
