// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What other systems have for it: LMDB copies an environment and leaves out free pages (mdb_copy -c), SQLite vacuums. A part is a
// record with its number as the key; half of them are deleted.
#include <cstring>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "os/file.hpp"
#include "peers/sqlite.hpp"
#include "rewriting/contender.hpp"

#ifdef TENURE_HAVE_LMDB
#include <lmdb.h>
#endif

namespace tenure::bench::rewriting {

namespace {

constexpr std::uint64_t batch = 20000;

// As many bytes as the fields of a part have.
[[maybe_unused]] std::string record(std::uint64_t n) {
  const std::string name = n % 2 == 0 ? "a name of some length, for a part" : "short";
  std::string bytes(66, '\0');
  std::memcpy(bytes.data(), &n, sizeof n);
  return bytes + name;
}
[[maybe_unused]] void check_record(std::uint64_t n, std::string_view has) {
  if (has != record(n)) throw std::runtime_error("wrong answer: a record is not what was made");
}

}  // namespace

#ifdef TENURE_HAVE_LMDB

namespace {

void require(int code, const char* what) {
  if (code != 0) throw std::runtime_error(fmt::format("lmdb: {}: {}", what, mdb_strerror(code)));
}

class lmdb final : public contender {
 public:
  using contender::contender;
  ~lmdb() override { close(); }
  std::string setting() const override { return "mdb_env_copy2 with MDB_CP_COMPACT, and fsync"; }

  void make(const size& of) override {
    std::filesystem::create_directory(made());
    open(made());
    const auto in_batches = [&](auto&& each) {
      for (std::uint64_t first = 0; first < of.objects; first += batch) {
        MDB_txn* txn = nullptr;
        require(mdb_txn_begin(environment_, nullptr, 0, &txn), "txn_begin");
        MDB_dbi table = 0;
        require(mdb_dbi_open(txn, nullptr, MDB_CREATE | MDB_INTEGERKEY, &table), "dbi_open");
        for (std::uint64_t n = first; n < std::min(first + batch, of.objects); ++n) each(txn, table, n);
        require(mdb_txn_commit(txn), "txn_commit");
      }
    };
    in_batches([](MDB_txn* txn, MDB_dbi table, std::uint64_t n) {
      std::string bytes = record(n);
      MDB_val key{sizeof n, &n}, value{bytes.size(), bytes.data()};
      require(mdb_put(txn, table, &key, &value, MDB_APPEND), "put");
    });
    in_batches([](MDB_txn* txn, MDB_dbi table, std::uint64_t n) {
      MDB_val key{sizeof n, &n};
      if (!is_kept(n)) require(mdb_del(txn, table, &key, nullptr), "del");
    });
    close();
  }
  void prepare() override {
    std::filesystem::create_directory(anew());
    open(made());
  }
  rewritten rewrite() override {
    require(mdb_env_copy2(environment_, anew().c_str(), MDB_CP_COMPACT), "env_copy2");
    const auto file = os::real_disk().open(anew() + "/data.mdb", os::access::read_write);
    file->sync();
    return {file->size(), 0};
  }
  void check(const size& of) override {
    close();
    open(anew());
    MDB_txn* txn = nullptr;
    require(mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &txn), "txn_begin");
    MDB_dbi table = 0;
    require(mdb_dbi_open(txn, nullptr, MDB_INTEGERKEY, &table), "dbi_open");
    for (std::uint64_t n = 0; n < of.objects; ++n) {
      MDB_val key{sizeof n, &n}, value{};
      const int found = mdb_get(txn, table, &key, &value);
      if ((found == 0) != is_kept(n)) throw std::runtime_error("wrong answer: lmdb has other records");
      if (found == 0) check_record(n, {static_cast<const char*>(value.mv_data), value.mv_size});
    }
    mdb_txn_abort(txn);
  }

 private:
  void open(const std::string& directory) {
    require(mdb_env_create(&environment_), "env_create");
    require(mdb_env_set_mapsize(environment_, std::size_t{1} << 36), "set_mapsize");
    require(mdb_env_open(environment_, directory.c_str(), 0, 0600), "env_open");
  }
  void close() {
    if (environment_ != nullptr) mdb_env_close(environment_);
    environment_ = nullptr;
  }
  MDB_env* environment_ = nullptr;
};

}  // namespace

std::unique_ptr<contender> make_lmdb(const std::filesystem::path& directory) {
  return std::make_unique<lmdb>(directory);
}
#else
std::unique_ptr<contender> make_lmdb(const std::filesystem::path&) { return nullptr; }
#endif

#ifdef TENURE_HAVE_SQLITE

namespace {

class sqlite final : public contender {
 public:
  using contender::contender;
  std::string setting() const override {
    return "VACUUM, synchronous=FULL, no journal mode but WAL, a checkpoint behind it";
  }

  void make(const size& of) override {
    std::filesystem::create_directory(made());
    sqlite_database in(made() + "/parts.db", cache);
    in.run("CREATE TABLE part (number INTEGER PRIMARY KEY, bytes BLOB)");
    {
      sqlite_statement insert(in, "INSERT INTO part VALUES (?1, ?2)");
      for (std::uint64_t first = 0; first < of.objects; first += batch) {
        in.run("BEGIN");
        for (std::uint64_t n = first; n < std::min(first + batch, of.objects); ++n)
          insert.run(static_cast<std::int64_t>(n), std::string_view(record(n)));
        in.run("COMMIT");
      }
    }
    in.run("DELETE FROM part WHERE number % 4 IN (1, 3)");
    in.run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  void prepare() override {
    std::filesystem::copy(made(), anew(), std::filesystem::copy_options::recursive);
    opened_ = std::make_unique<sqlite_database>(anew() + "/parts.db", cache);
  }
  rewritten rewrite() override {
    opened_->run("VACUUM");
    opened_->run("PRAGMA wal_checkpoint(TRUNCATE)");
    return {std::filesystem::file_size(anew() + "/parts.db"), 0};
  }
  void check(const size& of) override {
    sqlite_statement all(*opened_, "SELECT number, bytes FROM part ORDER BY number");
    std::uint64_t n = 0;
    all.rows([&](sqlite_statement& row) {
      while (!is_kept(n)) ++n;
      if (row.number(0) != static_cast<std::int64_t>(n))
        throw std::runtime_error("wrong answer: sqlite has other records");
      check_record(n++, row.text(1));
    });
    while (n < of.objects && !is_kept(n)) ++n;
    if (n != of.objects) throw std::runtime_error("wrong answer: sqlite has lost records");
  }

 private:
  static constexpr std::int64_t cache = 64 << 20;
  std::unique_ptr<sqlite_database> opened_;
};

}  // namespace

std::unique_ptr<contender> make_sqlite(const std::filesystem::path& directory) {
  return std::make_unique<sqlite>(directory);
}
#else
std::unique_ptr<contender> make_sqlite(const std::filesystem::path&) { return nullptr; }
#endif

}  // namespace tenure::bench::rewriting
