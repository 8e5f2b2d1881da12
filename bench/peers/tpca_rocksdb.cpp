// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// RocksDB: one column family, keys of a table letter and a big-endian number, one write batch a transaction; cache and
// filters in memory, no compression (the records do not compress), logs recycled. Durable: WriteOptions.sync; its own
// group commit serves several threads. Lazy: no sync. Threads never share records, so no transactions are needed.
#include "peers/tpca_contender.hpp"

#ifdef TENURE_HAVE_ROCKSDB
#include <array>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

namespace tenure::bench::tpca {
namespace {

void check(const rocksdb::Status& status, const char* what) {
  if (!status.ok()) throw std::runtime_error(fmt::format("rocksdb: {}: {}", what, status.ToString()));
}

class key {
 public:
  key(char table, std::uint64_t id) {
    bytes_[0] = table;
    for (std::size_t i = 0; i < 8; ++i) bytes_[1 + i] = static_cast<char>(id >> (56 - 8 * i));
  }
  operator rocksdb::Slice() const { return {bytes_.data(), bytes_.size()}; }
  static std::uint64_t id_in(const rocksdb::Slice& of) {
    std::uint64_t id = 0;
    for (std::size_t i = 1; i < 9; ++i) id = id << 8 | static_cast<unsigned char>(of[i]);
    return id;
  }

 private:
  std::array<char, 9> bytes_;
};

template <class T>
rocksdb::Slice slice(const T& of) {
  return {reinterpret_cast<const char*>(&of), sizeof(of)};
}

class rocksdb_contender : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return setup_.lazy ? "sync=false" : "sync=true"; }
  void create() override {
    open();
    fill('a', setup_.bank.accounts);
    fill('t', setup_.bank.tellers());
    fill('b', setup_.bank.branches);
    checkpoint();
    close();
  }
  void open() override {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.recycle_log_file_num = 4;
    options.max_background_jobs = 2;
    rocksdb::BlockBasedTableOptions tables;
    if (setup_.memory == 0) {
      tables.block_cache = rocksdb::NewLRUCache((std::size_t{64} << 20) + 2 * setup_.bank.bytes());
    } else {
      tables.block_cache = rocksdb::NewLRUCache(setup_.memory / 4);
      options.write_buffer_size = setup_.memory / 16;
    }
    tables.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(tables));
    rocksdb::DB* opened = nullptr;
    check(rocksdb::DB::Open(options, (setup_.directory / "rocks").string(), &opened), "open");
    database_.reset(opened);
  }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<rocksdb_session>(*this); }
  void flush() override { check(database_->FlushWAL(true), "FlushWAL"); }
  void checkpoint() override {
    check(database_->Flush({}), "Flush");
    check(database_->CompactRange({}, nullptr, nullptr), "CompactRange");
  }
  void audit(auditor& by) override {
    const std::unique_ptr<rocksdb::Iterator> at{database_->NewIterator({})};
    record one;
    history line;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      const auto id = key::id_in(at->key());
      const char table = at->key()[0];
      if (table == 'h') {
        std::memcpy(&line, at->value().data(), sizeof(line));
        by.trail(id, line);
        continue;
      }
      std::memcpy(&one, at->value().data(), sizeof(one));
      if (table == 'a') by.account(one.balance, one.transactions);
      if (table == 't') by.teller(static_cast<std::uint32_t>(id), one.balance, one.transactions);
      if (table == 'b') by.branch(static_cast<std::uint32_t>(id), one.balance, one.transactions);
    }
    check(at->status(), "iterate");
  }
  void close() override {
    if (database_ == nullptr) return;
    check(database_->Close(), "Close");
    database_.reset();
  }

 private:
  class rocksdb_session : public session {
   public:
    explicit rocksdb_session(rocksdb_contender& of) : of_(of) { write_.sync = !of.setup_.lazy; }
    void run(const transfer& what) override {
      const key a{'a', what.account}, t{'t', what.teller}, b{'b', what.branch};
      record account = get(a), teller = get(t), branch = get(b);
      history line;
      apply(what, account, teller, branch, line);
      batch_.Clear();
      check(batch_.Put(a, slice(account)), "Put");
      check(batch_.Put(t, slice(teller)), "Put");
      check(batch_.Put(b, slice(branch)), "Put");
      check(batch_.Put(key{'h', of_.setup_.bank.trail_index(what.branch, line.sequence)}, slice(line)), "Put");
      check(of_.database_->Write(write_, &batch_), "Write");
    }

   private:
    record get(const key& of) {
      check(of_.database_->Get(read_, of_.database_->DefaultColumnFamily(), of, &value_), "Get");
      record found;
      std::memcpy(&found, value_.data(), sizeof(found));
      value_.Reset();
      return found;
    }
    rocksdb_contender& of_;
    rocksdb::ReadOptions read_;
    rocksdb::WriteOptions write_;
    rocksdb::WriteBatch batch_;
    rocksdb::PinnableSlice value_;
  };

  void fill(char table, std::uint64_t count) {
    rocksdb::WriteOptions unlogged;
    unlogged.disableWAL = true;
    for (std::uint64_t id = 0; id < count; ++id) {
      const record fresh = fresh_record(id);
      check(database_->Put(unlogged, key{table, id}, slice(fresh)), "Put");
    }
  }

  std::unique_ptr<rocksdb::DB> database_;
};

}  // namespace

std::unique_ptr<contender> make_rocksdb(const setup& how) { return std::make_unique<rocksdb_contender>(how); }

}  // namespace tenure::bench::tpca
#else
namespace tenure::bench::tpca {
std::unique_ptr<contender> make_rocksdb(const setup&) { return nullptr; }
}  // namespace tenure::bench::tpca
#endif
