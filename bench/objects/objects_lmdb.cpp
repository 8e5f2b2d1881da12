// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// LMDB: an object is a record, and a field of it is written by writing the record anew.
#include "objects/contender.hpp"

#ifdef TENURE_HAVE_LMDB
#include <cstring>
#include <stdexcept>
#include <vector>

#include <lmdb.h>
#endif

namespace tenure::bench::objects {

#ifdef TENURE_HAVE_LMDB
namespace {

class lmdb_objects : public contender {
 public:
  ~lmdb_objects() override { close(); }
  std::string setting() const override { return "default (sync), integer keys"; }
  void open(const std::filesystem::path& directory) override {
    std::filesystem::create_directory(directory / "lmdb");
    check(mdb_env_create(&environment_));
    check(mdb_env_set_mapsize(environment_, std::size_t{1} << 30));
    check(mdb_env_open(environment_, (directory / "lmdb").c_str(), 0, 0600));
  }
  void close() override {
    if (environment_ != nullptr) mdb_env_close(environment_);
    environment_ = nullptr;
  }
  void begin() override {
    check(mdb_txn_begin(environment_, nullptr, 0, &txn_));
    check(mdb_dbi_open(txn_, nullptr, MDB_INTEGERKEY, &table_));
  }
  void commit() override { check(mdb_txn_commit(txn_)); }
  void allocate() override {
    const std::int64_t object[2] = {1, last_};
    put(++last_, object, sizeof object);
  }
  void prepare(std::size_t size) override {
    object_.assign(size, '\0');
    put(0, object_.data(), size);
  }
  void write(std::size_t offset, std::int64_t value) override {
    std::memcpy(object_.data() + offset, &value, sizeof value);
    put(0, object_.data(), object_.size());
  }

 private:
  static void check(int code) {
    if (code != 0) throw std::runtime_error(mdb_strerror(code));
  }
  void put(std::int64_t key, const void* value, std::size_t length) {
    MDB_val k{sizeof key, &key}, v{length, const_cast<void*>(value)};
    check(mdb_put(txn_, table_, &k, &v, 0));
  }
  MDB_env* environment_ = nullptr;
  MDB_txn* txn_ = nullptr;
  MDB_dbi table_ = 0;
  std::int64_t last_ = 0;
  std::vector<char> object_;
};

}  // namespace

std::unique_ptr<contender> make_lmdb() { return std::make_unique<lmdb_objects>(); }
#else
std::unique_ptr<contender> make_lmdb() { return nullptr; }
#endif

}  // namespace tenure::bench::objects
