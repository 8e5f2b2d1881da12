// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// LMDB: four tables in one environment, integer keys, records as they are in memory. Durable: the default, each commit
// syncs. Lazy: MDB_NOSYNC (after a crash of the machine it relies on the file system to keep writes in order).
#include "peers/tpca_contender.hpp"

#ifdef TENURE_HAVE_LMDB
#include <array>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <lmdb.h>

namespace tenure::bench::tpca {
namespace {

enum { accounts, tellers, branches, trail, tables };

void check(int code, const char* what) {
  if (code != 0) throw std::runtime_error(fmt::format("lmdb: {}: {}", what, mdb_strerror(code)));
}

class lmdb_contender : public contender {
 public:
  using contender::contender;
  ~lmdb_contender() override { close_environment(); }

  std::string setting() const override { return setup_.lazy ? "MDB_NOSYNC" : "default (sync)"; }

  void create() override {
    open();
    fill(accounts, setup_.bank.accounts);
    fill(tellers, setup_.bank.tellers());
    fill(branches, setup_.bank.branches);
    close();
  }
  void open() override {
    check(mdb_env_create(&environment_), "env_create");
    check(mdb_env_set_maxdbs(environment_, tables), "set_maxdbs");
    check(mdb_env_set_mapsize(environment_, (std::size_t{256} << 20) + 4 * setup_.bank.bytes()), "set_mapsize");
    check(mdb_env_open(environment_, setup_.directory.c_str(), setup_.lazy ? MDB_NOSYNC : 0, 0600), "env_open");
    MDB_txn* txn = nullptr;
    check(mdb_txn_begin(environment_, nullptr, 0, &txn), "txn_begin");
    const std::array<const char*, tables> names{"account", "teller", "branch", "trail"};
    for (std::size_t i = 0; i < tables; ++i)
      check(mdb_dbi_open(txn, names[i], MDB_CREATE | MDB_INTEGERKEY, &table_[i]), "dbi_open");
    check(mdb_txn_commit(txn), "txn_commit");
  }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<lmdb_session>(*this); }
  void flush() override { check(mdb_env_sync(environment_, 1), "env_sync"); }
  void checkpoint() override { flush(); }

  void audit(auditor& by) override {
    MDB_txn* txn = nullptr;
    check(mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &txn), "txn_begin");
    const auto each = [&](int table, auto&& show) {
      MDB_cursor* cursor = nullptr;
      check(mdb_cursor_open(txn, table_[static_cast<std::size_t>(table)], &cursor), "cursor_open");
      MDB_val key, value;
      while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
        std::size_t id = 0;
        std::memcpy(&id, key.mv_data, sizeof(id));
        show(id, value.mv_data);
      }
      mdb_cursor_close(cursor);
    };
    record one;
    each(accounts, [&](std::size_t, const void* data) {
      std::memcpy(&one, data, sizeof(one));
      by.account(one.balance, one.transactions);
    });
    each(tellers, [&](std::size_t id, const void* data) {
      std::memcpy(&one, data, sizeof(one));
      by.teller(static_cast<std::uint32_t>(id), one.balance, one.transactions);
    });
    each(branches, [&](std::size_t id, const void* data) {
      std::memcpy(&one, data, sizeof(one));
      by.branch(static_cast<std::uint32_t>(id), one.balance, one.transactions);
    });
    each(trail, [&](std::size_t id, const void* data) {
      history line;
      std::memcpy(&line, data, sizeof(line));
      by.trail(id, line);
    });
    mdb_txn_abort(txn);
  }
  void close() override {
    if (environment_ != nullptr && setup_.lazy) flush();
    close_environment();
  }

 private:
  class lmdb_session : public session {
   public:
    explicit lmdb_session(lmdb_contender& of) : of_(of) {}
    void run(const transfer& what) override {
      MDB_txn* txn = nullptr;
      check(mdb_txn_begin(of_.environment_, nullptr, 0, &txn), "txn_begin");
      try {
        record account = of_.get(txn, accounts, what.account), teller = of_.get(txn, tellers, what.teller),
               branch = of_.get(txn, branches, what.branch);
        history line;
        apply(what, account, teller, branch, line);
        of_.put(txn, accounts, what.account, account);
        of_.put(txn, tellers, what.teller, teller);
        of_.put(txn, branches, what.branch, branch);
        of_.put(txn, trail, of_.setup_.bank.trail_index(what.branch, line.sequence), line);
      } catch (...) {
        mdb_txn_abort(txn);
        throw;
      }
      check(mdb_txn_commit(txn), "txn_commit");
    }

   private:
    lmdb_contender& of_;
  };

  record get(MDB_txn* txn, int table, std::size_t id) const {
    MDB_val key{sizeof(id), &id}, value;
    check(mdb_get(txn, table_[static_cast<std::size_t>(table)], &key, &value), "get");
    record found;
    std::memcpy(&found, value.mv_data, sizeof(found));
    return found;
  }
  template <class T>
  void put(MDB_txn* txn, int table, std::size_t id, T& data, unsigned flags = 0) const {
    MDB_val key{sizeof(id), &id}, value{sizeof(data), &data};
    check(mdb_put(txn, table_[static_cast<std::size_t>(table)], &key, &value, flags), "put");
  }
  void fill(int table, std::uint64_t count) {
    MDB_txn* txn = nullptr;
    check(mdb_txn_begin(environment_, nullptr, 0, &txn), "txn_begin");
    for (std::uint64_t id = 0; id < count; ++id) {
      record fresh = fresh_record(id);
      put(txn, table, id, fresh, MDB_APPEND);
    }
    check(mdb_txn_commit(txn), "txn_commit");
  }
  void close_environment() noexcept {
    if (environment_ != nullptr) mdb_env_close(environment_);
    environment_ = nullptr;
  }

  MDB_env* environment_ = nullptr;
  std::array<MDB_dbi, tables> table_ = {};
};

}  // namespace

std::unique_ptr<contender> make_lmdb(const setup& how) { return std::make_unique<lmdb_contender>(how); }

}  // namespace tenure::bench::tpca
#else
namespace tenure::bench::tpca {
std::unique_ptr<contender> make_lmdb(const setup&) { return nullptr; }
}  // namespace tenure::bench::tpca
#endif
