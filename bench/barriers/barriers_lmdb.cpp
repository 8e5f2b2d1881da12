// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// LMDB: integer keys, records as they are in memory. Lazy: MDB_NOSYNC.
#include "barriers/contender.hpp"

#ifdef TENURE_HAVE_LMDB
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <lmdb.h>

namespace tenure::bench::barriers {
namespace {

void check(int code, const char* what) {
  if (code != 0) throw std::runtime_error(fmt::format("lmdb: {}: {}", what, mdb_strerror(code)));
}

class lmdb_contender : public contender {
 public:
  ~lmdb_contender() override {
    if (environment_ != nullptr) mdb_env_close(environment_);
  }
  std::string setting() const override { return "integer keys; lazy: MDB_NOSYNC"; }
  void create(const setup& how) override {
    check(mdb_env_create(&environment_), "env_create");
    check(mdb_env_set_mapsize(environment_, (std::size_t{256} << 20) + 8 * how.records * sizeof(record)),
          "set_mapsize");
    check(mdb_env_open(environment_, how.directory.c_str(), how.durable ? 0 : MDB_NOSYNC, 0600), "env_open");
    MDB_txn* const txn = begin(0);
    check(mdb_dbi_open(txn, nullptr, MDB_CREATE | MDB_INTEGERKEY, &table_), "dbi_open");
    record zeros{};
    for (std::size_t n = 0; n < how.records; ++n) put(txn, n, zeros, MDB_APPEND);
    check(mdb_txn_commit(txn), "txn_commit");
  }
  void transact(std::span<const update> updates) override {
    MDB_txn* const txn = begin(0);
    try {
      for (const update& u : updates) {
        record one = get(txn, u.record);
        one.words[u.word] = u.value;
        put(txn, u.record, one, 0);
      }
    } catch (...) {
      mdb_txn_abort(txn);
      throw;
    }
    check(mdb_txn_commit(txn), "txn_commit");
  }
  void flush() override { check(mdb_env_sync(environment_, 1), "env_sync"); }
  std::uint64_t word(std::uint32_t record, std::uint32_t word) override {
    MDB_txn* const txn = begin(MDB_RDONLY);
    const std::uint64_t found = get(txn, record).words[word];
    mdb_txn_abort(txn);
    return found;
  }

 private:
  [[nodiscard]] MDB_txn* begin(unsigned flags) {
    MDB_txn* txn = nullptr;
    check(mdb_txn_begin(environment_, nullptr, flags, &txn), "txn_begin");
    return txn;
  }
  [[nodiscard]] record get(MDB_txn* txn, std::size_t id) {
    MDB_val key{sizeof id, &id}, value;
    check(mdb_get(txn, table_, &key, &value), "get");
    record found;
    std::memcpy(&found, value.mv_data, sizeof found);
    return found;
  }
  void put(MDB_txn* txn, std::size_t id, record& what, unsigned flags) {
    MDB_val key{sizeof id, &id}, value{sizeof what, &what};
    check(mdb_put(txn, table_, &key, &value, flags), "put");
  }

  MDB_env* environment_ = nullptr;
  MDB_dbi table_ = 0;
};

}  // namespace

std::unique_ptr<contender> make_lmdb() { return std::make_unique<lmdb_contender>(); }

}  // namespace tenure::bench::barriers
#else
namespace tenure::bench::barriers {
std::unique_ptr<contender> make_lmdb() { return nullptr; }
}  // namespace tenure::bench::barriers
#endif
