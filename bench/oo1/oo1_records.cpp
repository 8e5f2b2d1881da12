// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The databases that keep OO1's records, each as somebody would use it who knows it well.
#include "oo1/records.hpp"

#include <optional>

#include <fmt/format.h>

#include "peers/sqlite.hpp"

#ifdef TENURE_HAVE_LMDB
#include <lmdb.h>
#endif
#ifdef TENURE_HAVE_ROCKSDB
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/write_batch_with_index.h>
#endif

namespace tenure::bench::oo1 {
namespace {

#ifdef TENURE_HAVE_LMDB
class lmdb_contender : public record_contender {
 public:
  using record_contender::record_contender;
  ~lmdb_contender() override { close(); }

  std::string setting() const override { return "default (sync), integer keys"; }
  void create_store() override { open(); }
  void open() override {
    check(mdb_env_create(&environment_));
    check(mdb_env_set_mapsize(environment_, (std::size_t{256} << 20) + static_cast<std::size_t>(parts_) * 1024));
    check(mdb_env_open(environment_, directory_.c_str(), 0, 0600));
    begin();
    check(mdb_dbi_open(in_, nullptr, MDB_INTEGERKEY, &table_));
    commit();
  }
  void close() override {
    if (environment_ != nullptr) mdb_env_close(environment_);
    environment_ = nullptr;
  }
  void begin() override { check(mdb_txn_begin(environment_, nullptr, 0, &in_)); }
  void commit() override { check(mdb_txn_commit(in_)); }

 protected:
  void read(int id, reader& with) override {
    MDB_val k{sizeof id, &id}, v{};
    check(mdb_get(in_, table_, &k, &v));
    with({static_cast<const char*>(v.mv_data), v.mv_size});
  }
  void write(int id, std::string_view record) override {
    MDB_val k{sizeof id, &id}, v{record.size(), const_cast<char*>(record.data())};
    check(mdb_put(in_, table_, &k, &v, 0));
  }
  void erase(int id) override {
    MDB_val k{sizeof id, &id};
    check(mdb_del(in_, table_, &k, nullptr));
  }

 private:
  static void check(int code) {
    if (code != 0) throw std::runtime_error(fmt::format("lmdb: {}", mdb_strerror(code)));
  }
  MDB_env* environment_ = nullptr;
  MDB_txn* in_ = nullptr;
  MDB_dbi table_ = 0;
};
#endif

#ifdef TENURE_HAVE_SQLITE
class sqlite_contender : public record_contender {
 public:
  using record_contender::record_contender;

  std::string setting() const override { return "a row with a blob; WAL, synchronous=FULL, prepared statements"; }
  void create_store() override {
    open_file();
    database_->run("CREATE TABLE part (id INTEGER PRIMARY KEY, record BLOB)");
    make_.emplace(*database_);
  }
  void open() override {
    open_file();
    make_.emplace(*database_);
  }
  void close() override {
    make_.reset();
    database_.reset();
  }
  void begin() override { database_->run("BEGIN"); }
  void commit() override { database_->run("COMMIT"); }

 protected:
  void read(int id, reader& with) override {
    // Traversals go on only after the row has been read.
    bool found = false;
    make_->select.rows(
        [&](auto& row) {
          with(row.text(0));
          found = true;
        },
        id);
    if (!found) throw std::runtime_error(fmt::format("sqlite: there is no part {}", id));
  }
  void write(int id, std::string_view record) override { make_->replace.run(id, record); }
  void erase(int id) override { make_->remove.run(id); }

 private:
  struct statements {
    explicit statements(const sqlite_database& in)
        : select(in, "SELECT record FROM part WHERE id = ?"),
          replace(in, "INSERT OR REPLACE INTO part VALUES (?, ?)"),
          remove(in, "DELETE FROM part WHERE id = ?") {}
    sqlite_statement select, replace, remove;
  };
  void open_file() { database_.emplace(directory_ / "oo1.db", (std::int64_t{256} << 20) + std::int64_t{parts_} * 400); }
  std::optional<sqlite_database> database_;
  std::optional<statements> make_;
};
#endif

#ifdef TENURE_HAVE_ROCKSDB
class rocksdb_contender : public record_contender {
 public:
  using record_contender::record_contender;

  std::string setting() const override { return "an indexed write batch a transaction, sync"; }
  void create_store() override { open_files(true); }
  void open() override { open_files(false); }
  void close() override {
    batch_.reset();
    database_.reset();
  }
  void begin() override { batch_.emplace(rocksdb::BytewiseComparator(), 0, true); }
  void commit() override {
    if (batch_->GetWriteBatch()->Count() > 0) {
      rocksdb::WriteOptions how;
      how.sync = true;
      check(database_->Write(how, batch_->GetWriteBatch()));
    }
    batch_.reset();
  }

 protected:
  void read(int id, reader& with) override {
    const key_text key{id};
    if (batch_->GetWriteBatch()->Count() == 0) {
      rocksdb::PinnableSlice value;
      check(database_->Get({}, database_->DefaultColumnFamily(), key.slice(), &value));
      return with({value.data(), value.size()});
    }
    std::string value;
    check(batch_->GetFromBatchAndDB(database_.get(), {}, key.slice(), &value));
    with(value);
  }
  void write(int id, std::string_view record) override {
    check(batch_->Put(key_text{id}.slice(), {record.data(), record.size()}));
  }
  void erase(int id) override { check(batch_->Delete(key_text{id}.slice())); }

 private:
  // In the order of the numbers.
  struct key_text {
    explicit key_text(int id) {
      for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(id >> (24 - 8 * static_cast<int>(i)));
    }
    [[nodiscard]] rocksdb::Slice slice() const { return {bytes.data(), bytes.size()}; }
    std::array<char, 4> bytes;
  };
  static void check(const rocksdb::Status& status) {
    if (!status.ok()) throw std::runtime_error("rocksdb: " + status.ToString());
  }
  void open_files(bool create) {
    rocksdb::Options how;
    how.create_if_missing = create;
    rocksdb::DB* opened = nullptr;
    check(rocksdb::DB::Open(how, (directory_ / "rocks").string(), &opened));
    database_.reset(opened);
  }
  std::unique_ptr<rocksdb::DB> database_;
  std::optional<rocksdb::WriteBatchWithIndex> batch_;
};
#endif

}  // namespace

#ifdef TENURE_HAVE_LMDB
std::unique_ptr<contender> make_lmdb(const std::filesystem::path& directory, int parts) {
  return std::make_unique<lmdb_contender>(directory, parts);
}
#else
std::unique_ptr<contender> make_lmdb(const std::filesystem::path&, int) { return nullptr; }
#endif
#ifdef TENURE_HAVE_SQLITE
std::unique_ptr<contender> make_sqlite(const std::filesystem::path& directory, int parts) {
  return std::make_unique<sqlite_contender>(directory, parts);
}
#else
std::unique_ptr<contender> make_sqlite(const std::filesystem::path&, int) { return nullptr; }
#endif
#ifdef TENURE_HAVE_ROCKSDB
std::unique_ptr<contender> make_rocksdb(const std::filesystem::path& directory, int parts) {
  return std::make_unique<rocksdb_contender>(directory, parts);
}
#else
std::unique_ptr<contender> make_rocksdb(const std::filesystem::path&, int) { return nullptr; }
#endif

}  // namespace tenure::bench::oo1
