// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// SQLite in WAL mode, one connection with exclusive locking, prepared statements, a cache that holds the whole bank.
// Durable: synchronous=FULL. Lazy: synchronous=OFF (a crash of the machine may then damage the database). Several
// threads take turns on the connection: SQLite has one writer at a time anyhow, and its own waiting for a lock sleeps.
#include "peers/tpca_contender.hpp"

#ifdef TENURE_HAVE_SQLITE
#include <mutex>
#include <stdexcept>

#include <fmt/format.h>
#include <sqlite3.h>

namespace tenure::bench::tpca {
namespace {

class statement {
 public:
  statement(sqlite3* database, const std::string& text) : database_(database) {
    if (sqlite3_prepare_v3(database, text.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &prepared_, nullptr) != SQLITE_OK)
      throw std::runtime_error(fmt::format("sqlite: {}: {}", text, sqlite3_errmsg(database)));
  }
  ~statement() { sqlite3_finalize(prepared_); }
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;

  template <class... Values>
  statement& bind(Values... values) {
    int at = 0;
    (sqlite3_bind_int64(prepared_, ++at, static_cast<sqlite3_int64>(values)), ...);
    return *this;
  }
  void bind_blob(int at, const void* data, std::size_t length) {
    sqlite3_bind_blob(prepared_, at, data, static_cast<int>(length), SQLITE_STATIC);
  }
  // True if there is a row.
  bool step() {
    const int code = sqlite3_step(prepared_);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
      throw std::runtime_error(fmt::format("sqlite: {}: {}", sqlite3_sql(prepared_), sqlite3_errmsg(database_)));
    return code == SQLITE_ROW;
  }
  std::int64_t column(int at) { return sqlite3_column_int64(prepared_, at); }
  void run() {
    while (step()) {
    }
    sqlite3_reset(prepared_);
  }
  void reset() { sqlite3_reset(prepared_); }

 private:
  sqlite3* database_;
  sqlite3_stmt* prepared_ = nullptr;
};

class sqlite_contender : public contender {
 public:
  using contender::contender;
  ~sqlite_contender() override { close(); }

  std::string setting() const override { return setup_.lazy ? "WAL, synchronous=OFF" : "WAL, synchronous=FULL"; }
  void create() override {
    open_database();
    execute("BEGIN");
    for (const char* table : {"account", "teller", "branch"})
      execute(fmt::format(
          "CREATE TABLE {} (id INTEGER PRIMARY KEY, balance INTEGER, transactions INTEGER, filler BLOB)", table));
    execute(
        "CREATE TABLE trail (id INTEGER PRIMARY KEY, sequence INTEGER, account INTEGER, teller INTEGER,"
        " branch INTEGER, delta INTEGER, total INTEGER, filler BLOB)");
    fill("account", setup_.bank.accounts);
    fill("teller", setup_.bank.tellers());
    fill("branch", setup_.bank.branches);
    execute("COMMIT");
    checkpoint();
    close();
  }
  void open() override {
    open_database();
    prepared_ = std::make_unique<prepared>(database_);
  }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<sqlite_session>(*this); }
  // A checkpoint syncs the log first, if it is told to sync at all.
  void flush() override { checkpoint(); }
  void checkpoint() override {
    execute("PRAGMA synchronous=FULL");
    execute("PRAGMA wal_checkpoint(TRUNCATE)");
    if (setup_.lazy) execute("PRAGMA synchronous=OFF");
  }
  void audit(auditor& by) override {
    for (statement s{database_, "SELECT balance, transactions FROM account"}; s.step();)
      by.account(s.column(0), static_cast<std::uint64_t>(s.column(1)));
    for (statement s{database_, "SELECT id, balance, transactions FROM teller"}; s.step();)
      by.teller(static_cast<std::uint32_t>(s.column(0)), s.column(1), static_cast<std::uint64_t>(s.column(2)));
    for (statement s{database_, "SELECT id, balance, transactions FROM branch"}; s.step();)
      by.branch(static_cast<std::uint32_t>(s.column(0)), s.column(1), static_cast<std::uint64_t>(s.column(2)));
    for (statement s{database_, "SELECT id, sequence, delta, total FROM trail"}; s.step();)
      by.trail(static_cast<std::uint64_t>(s.column(0)), static_cast<std::uint64_t>(s.column(1)), s.column(2),
               s.column(3));
  }
  void close() override {
    prepared_.reset();
    if (database_ != nullptr) sqlite3_close(database_);
    database_ = nullptr;
  }

 private:
  struct prepared {
    explicit prepared(sqlite3* database)
        : begin(database, "BEGIN IMMEDIATE"),
          account(database, "UPDATE account SET balance=balance+?2, transactions=transactions+1 WHERE id=?1"),
          teller(database, "UPDATE teller SET balance=balance+?2, transactions=transactions+1 WHERE id=?1"),
          branch(database,
                 "UPDATE branch SET balance=balance+?2, transactions=transactions+1 WHERE id=?1"
                 " RETURNING transactions, balance"),
          trail(database, "INSERT OR REPLACE INTO trail VALUES (?1,?2,?3,?4,?5,?6,?7,zeroblob(16))"),
          commit(database, "COMMIT"),
          rollback(database, "ROLLBACK") {}
    statement begin, account, teller, branch, trail, commit, rollback;
  };

  class sqlite_session : public session {
   public:
    explicit sqlite_session(sqlite_contender& of) : of_(of) {}
    void run(const transfer& what) override {
      const std::lock_guard lock{of_.turn_};
      prepared& p = *of_.prepared_;
      p.begin.run();
      try {
        p.account.bind(what.account, what.delta).run();
        p.teller.bind(what.teller, what.delta).run();
        p.branch.bind(what.branch, what.delta);
        if (!p.branch.step()) throw std::runtime_error("sqlite: no such branch");
        const auto sequence = static_cast<std::uint64_t>(p.branch.column(0));
        const std::int64_t total = p.branch.column(1);
        p.branch.run();
        p.trail
            .bind(of_.setup_.bank.trail_index(what.branch, sequence), sequence, what.account, what.teller, what.branch,
                  what.delta, total)
            .run();
        p.commit.run();
      } catch (...) {
        for (auto* s : {&p.account, &p.teller, &p.branch, &p.trail, &p.commit}) s->reset();
        p.rollback.run();
        throw;
      }
    }

   private:
    sqlite_contender& of_;
  };

  void open_database() {
    const std::string path = (setup_.directory / "bank.sqlite").string();
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path.c_str(), &database_, flags, nullptr) != SQLITE_OK)
      throw std::runtime_error(fmt::format("sqlite: {}: {}", path, sqlite3_errmsg(database_)));
    execute("PRAGMA locking_mode=EXCLUSIVE");
    execute("PRAGMA journal_mode=WAL");
    execute(setup_.lazy ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=FULL");
    execute(fmt::format("PRAGMA cache_size=-{}", (setup_.bank.bytes() >> 10) * 2 + 65536));
  }
  void execute(const std::string& text) {
    char* message = nullptr;
    if (sqlite3_exec(database_, text.c_str(), nullptr, nullptr, &message) == SQLITE_OK) return;
    const std::string said = message != nullptr ? message : "?";
    sqlite3_free(message);
    throw std::runtime_error(fmt::format("sqlite: {}: {}", text, said));
  }
  void fill(const char* table, std::uint64_t count) {
    statement insert{database_, fmt::format("INSERT INTO {} VALUES (?1, 0, 0, ?2)", table)};
    for (std::uint64_t id = 0; id < count; ++id) {
      const record fresh = fresh_record(id);
      insert.bind(id);
      insert.bind_blob(2, fresh.filler.data(), fresh.filler.size());
      insert.run();
    }
  }

  sqlite3* database_ = nullptr;
  std::unique_ptr<prepared> prepared_;
  std::mutex turn_;  // whose holder may use the connection
};

}  // namespace

std::unique_ptr<contender> make_sqlite(const setup& how) { return std::make_unique<sqlite_contender>(how); }

}  // namespace tenure::bench::tpca
#else
namespace tenure::bench::tpca {
std::unique_ptr<contender> make_sqlite(const setup&) { return nullptr; }
}  // namespace tenure::bench::tpca
#endif
