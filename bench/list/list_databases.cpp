// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Databases: a node is a record with the key of its place, value and next key; a walk follows the keys, since that is what a
// list is.
#include <array>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "list/contender.hpp"

#ifdef TENURE_HAVE_LMDB
#include <lmdb.h>
#endif
#ifdef TENURE_HAVE_SQLITE
#include <sqlite3.h>
#endif
#ifdef TENURE_HAVE_ROCKSDB
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#endif
#ifdef TENURE_HAVE_PMEMOBJ
#include <libpmemobj.h>
#endif

namespace tenure::bench::list {
namespace {

// As stored.
struct record {
  std::int64_t value;
  std::uint64_t next;  // 0: none; keys begin with 1
};
record record_of(std::uint64_t index, std::uint64_t nodes) {
  return {static_cast<std::int64_t>(index), index + 1 < nodes ? index + 2 : 0};
}
template <class F>
std::uint64_t walk_keys(F&& get) {
  std::uint64_t sum = 0;
  for (std::uint64_t key = 1; key != 0;) {
    const record r = get(key);
    sum = sum * 31 + static_cast<std::uint64_t>(r.value);
    key = r.next;
  }
  return sum;
}

#ifdef TENURE_HAVE_LMDB
class lmdb_list : public contender {
 public:
  using contender::contender;
  ~lmdb_list() override { close(); }
  std::string setting() const override { return "default (sync), integer keys, append"; }
  void prepare(std::uint64_t) override { open(); }
  void save(std::uint64_t nodes) override {
    MDB_txn* txn = begin(0);
    for (std::uint64_t i = 0; i < nodes; ++i) put(txn, i + 1, record_of(i, nodes), MDB_APPEND);
    check(mdb_txn_commit(txn));
  }
  std::uint64_t open_and_walk() override {
    open();
    MDB_txn* txn = begin(MDB_RDONLY);
    const auto sum = walk_keys([&](std::uint64_t key) { return get(txn, key); });
    mdb_txn_abort(txn);
    return sum;
  }
  void update(std::uint64_t index, std::int64_t value) override {
    MDB_txn* txn = begin(0);
    record r = get(txn, index + 1);
    r.value = value;
    put(txn, index + 1, r, 0);
    check(mdb_txn_commit(txn));
  }
  void close() override {
    if (environment_ != nullptr) mdb_env_close(environment_);
    environment_ = nullptr;
  }

 private:
  static void check(int code) {
    if (code != 0) throw std::runtime_error(fmt::format("lmdb: {}", mdb_strerror(code)));
  }
  void open() {
    check(mdb_env_create(&environment_));
    check(mdb_env_set_mapsize(environment_, std::size_t{1} << 30));
    check(mdb_env_open(environment_, directory_.c_str(), 0, 0600));
    MDB_txn* txn = begin(0);
    check(mdb_dbi_open(txn, nullptr, MDB_INTEGERKEY, &table_));
    check(mdb_txn_commit(txn));
  }
  MDB_txn* begin(unsigned flags) {
    MDB_txn* txn = nullptr;
    check(mdb_txn_begin(environment_, nullptr, flags, &txn));
    return txn;
  }
  void put(MDB_txn* txn, std::uint64_t key, const record& r, unsigned flags) {
    MDB_val k{sizeof key, &key}, v{sizeof r, const_cast<record*>(&r)};
    check(mdb_put(txn, table_, &k, &v, flags));
  }
  record get(MDB_txn* txn, std::uint64_t key) {
    MDB_val k{sizeof key, &key}, v{};
    check(mdb_get(txn, table_, &k, &v));
    record r;
    std::memcpy(&r, v.mv_data, sizeof r);
    return r;
  }
  MDB_env* environment_ = nullptr;
  MDB_dbi table_ = 0;
};
#endif

#ifdef TENURE_HAVE_SQLITE
class sqlite_list : public contender {
 public:
  using contender::contender;
  ~sqlite_list() override { close(); }
  std::string setting() const override { return "WAL, synchronous=FULL, prepared statements"; }
  void prepare(std::uint64_t) override {
    open();
    run("CREATE TABLE list (id INTEGER PRIMARY KEY, value INTEGER, next INTEGER)");
  }
  void save(std::uint64_t nodes) override {
    run("BEGIN");
    sqlite3_stmt* insert = make("INSERT INTO list VALUES (?, ?, ?)");
    for (std::uint64_t i = 0; i < nodes; ++i) {
      const record r = record_of(i, nodes);
      step(insert, {static_cast<std::int64_t>(i + 1), r.value, static_cast<std::int64_t>(r.next)});
    }
    sqlite3_finalize(insert);
    run("COMMIT");
  }
  std::uint64_t open_and_walk() override {
    open();
    sqlite3_stmt* select = make("SELECT value, next FROM list WHERE id = ?");
    const auto sum = walk_keys([&](std::uint64_t key) {
      sqlite3_bind_int64(select, 1, static_cast<sqlite3_int64>(key));
      if (sqlite3_step(select) != SQLITE_ROW) fail();
      const record r{sqlite3_column_int64(select, 0), static_cast<std::uint64_t>(sqlite3_column_int64(select, 1))};
      sqlite3_reset(select);
      return r;
    });
    sqlite3_finalize(select);
    return sum;
  }
  void update(std::uint64_t index, std::int64_t value) override {
    if (update_ == nullptr) update_ = make("UPDATE list SET value = ? WHERE id = ?");
    step(update_, {value, static_cast<std::int64_t>(index + 1)});
  }
  void close() override {
    sqlite3_finalize(update_);
    update_ = nullptr;
    sqlite3_close(database_);
    database_ = nullptr;
  }

 private:
  [[noreturn]] void fail() { throw std::runtime_error(fmt::format("sqlite: {}", sqlite3_errmsg(database_))); }
  void open() {
    if (sqlite3_open(file("list.db").c_str(), &database_) != SQLITE_OK) fail();
    run("PRAGMA journal_mode=WAL");
    run("PRAGMA synchronous=FULL");
  }
  void run(const char* statement) {
    if (sqlite3_exec(database_, statement, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }
  sqlite3_stmt* make(const char* text) {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v2(database_, text, -1, &made, nullptr) != SQLITE_OK) fail();
    return made;
  }
  void step(sqlite3_stmt* what, std::initializer_list<std::int64_t> values) {
    int at = 0;
    for (const std::int64_t value : values) sqlite3_bind_int64(what, ++at, value);
    if (sqlite3_step(what) != SQLITE_DONE) fail();
    sqlite3_reset(what);
  }
  sqlite3* database_ = nullptr;
  sqlite3_stmt* update_ = nullptr;
};
#endif

#ifdef TENURE_HAVE_ROCKSDB
class rocksdb_list : public contender {
 public:
  using contender::contender;
  std::string setting() const override { return "one write batch, sync"; }
  void prepare(std::uint64_t) override { open(); }
  void save(std::uint64_t nodes) override {
    rocksdb::WriteBatch batch;
    for (std::uint64_t i = 0; i < nodes; ++i) {
      const record r = record_of(i, nodes);
      batch.Put(key_of(i + 1), slice_of(r));
    }
    write(batch);
  }
  std::uint64_t open_and_walk() override {
    open();
    return walk_keys([&](std::uint64_t key) { return get(key); });
  }
  void update(std::uint64_t index, std::int64_t value) override {
    record r = get(index + 1);
    r.value = value;
    rocksdb::WriteBatch batch;
    batch.Put(key_of(index + 1), slice_of(r));
    write(batch);
  }
  void close() override { database_.reset(); }

 private:
  static void check(const rocksdb::Status& status) {
    if (!status.ok()) throw std::runtime_error("rocksdb: " + status.ToString());
  }
  static std::string key_of(std::uint64_t key) {
    const std::uint64_t ordered = __builtin_bswap64(key);
    return {reinterpret_cast<const char*>(&ordered), sizeof ordered};
  }
  static rocksdb::Slice slice_of(const record& r) { return {reinterpret_cast<const char*>(&r), sizeof r}; }
  void open() {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    rocksdb::DB* opened = nullptr;
    check(rocksdb::DB::Open(options, file("rocks"), &opened));
    database_.reset(opened);
  }
  void write(rocksdb::WriteBatch& batch) {
    rocksdb::WriteOptions how;
    how.sync = true;
    check(database_->Write(how, &batch));
  }
  record get(std::uint64_t key) {
    std::string value;
    check(database_->Get({}, key_of(key), &value));
    record r;
    std::memcpy(&r, value.data(), sizeof r);
    return r;
  }
  std::unique_ptr<rocksdb::DB> database_;
};
#endif

#ifdef TENURE_HAVE_PMEMOBJ
class pmemobj_list : public contender {
 public:
  using contender::contender;
  ~pmemobj_list() override { close(); }
  std::string setting() const override { return "one object of nodes with indices, ordinary file"; }
  void prepare(std::uint64_t nodes) override {
    pool_ = pmemobj_create(file("pool").c_str(), "list", (std::size_t{32} << 20) + nodes * sizeof(record) * 3, 0600);
    find(nodes);
  }
  void save(std::uint64_t nodes) override {
    in_transaction([&] {
      pmemobj_tx_add_range_direct(records_, nodes * sizeof(record));
      for (std::uint64_t i = 0; i < nodes; ++i) records_[i] = record_of(i, nodes);
    });
  }
  std::uint64_t open_and_walk() override {
    pool_ = pmemobj_open(file("pool").c_str(), "list");
    find(1);
    return walk_keys([&](std::uint64_t key) { return records_[key - 1]; });
  }
  void update(std::uint64_t index, std::int64_t value) override {
    in_transaction([&] {
      pmemobj_tx_add_range_direct(&records_[index].value, sizeof value);
      records_[index].value = value;
    });
  }
  void close() override {
    if (pool_ != nullptr) pmemobj_close(pool_);
    pool_ = nullptr;
  }

 private:
  void find(std::uint64_t nodes) {
    if (pool_ == nullptr) throw std::runtime_error(fmt::format("pmemobj: {}", pmemobj_errormsg()));
    const std::size_t length = std::max(pmemobj_root_size(pool_), nodes * sizeof(record));
    records_ = static_cast<record*>(pmemobj_direct(pmemobj_root(pool_, length)));
  }
  template <class F>
  void in_transaction(F&& f) {
    if (pmemobj_tx_begin(pool_, nullptr, TX_PARAM_NONE) != 0) throw std::runtime_error("pmemobj: tx_begin");
    f();
    pmemobj_tx_commit();
    if (pmemobj_tx_end() != 0) throw std::runtime_error(fmt::format("pmemobj: {}", pmemobj_errormsg()));
  }
  PMEMobjpool* pool_ = nullptr;
  record* records_ = nullptr;
};
#endif

template <class T>
std::unique_ptr<contender> make(const std::filesystem::path& directory) {
  return std::make_unique<T>(directory);
}

}  // namespace

#ifdef TENURE_HAVE_LMDB
std::unique_ptr<contender> make_lmdb(const std::filesystem::path& d) { return make<lmdb_list>(d); }
#else
std::unique_ptr<contender> make_lmdb(const std::filesystem::path&) { return nullptr; }
#endif
#ifdef TENURE_HAVE_SQLITE
std::unique_ptr<contender> make_sqlite(const std::filesystem::path& d) { return make<sqlite_list>(d); }
#else
std::unique_ptr<contender> make_sqlite(const std::filesystem::path&) { return nullptr; }
#endif
#ifdef TENURE_HAVE_ROCKSDB
std::unique_ptr<contender> make_rocksdb(const std::filesystem::path& d) { return make<rocksdb_list>(d); }
#else
std::unique_ptr<contender> make_rocksdb(const std::filesystem::path&) { return nullptr; }
#endif
#ifdef TENURE_HAVE_PMEMOBJ
std::unique_ptr<contender> make_pmemobj(const std::filesystem::path& d) { return make<pmemobj_list>(d); }
#else
std::unique_ptr<contender> make_pmemobj(const std::filesystem::path&) { return nullptr; }
#endif

}  // namespace tenure::bench::list
