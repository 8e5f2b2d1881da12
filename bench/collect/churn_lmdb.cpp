// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The churned graph in LMDB: an object is a record, found by its number; those of a group that is dropped are deleted. Commits
// are not synced (MDB_NOSYNC) until all is to be durable. A file never shrinks: tidying is a compacting copy.
#include "collect/contender.hpp"

#ifdef TENURE_HAVE_LMDB
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>
#include <lmdb.h>

#include "collect/group.hpp"
#endif

namespace tenure::bench::collect {

#ifdef TENURE_HAVE_LMDB
namespace {

class of_lmdb : public contender {
 public:
  using contender::contender;
  ~of_lmdb() override { of_lmdb::close(); }
  std::string setting() const override { return "MDB_NOSYNC, integer keys, new rows appended"; }
  void create() override {
    std::filesystem::create_directory(directory_ / "lmdb");
    open();
  }
  void begin() override { check(mdb_txn_begin(environment_, nullptr, 0, &open_)); }
  void commit() override { check(mdb_txn_commit(open_)); }
  void replace(std::uint64_t slot, std::uint64_t serial) override {
    std::uint64_t before = 0;
    if (find(slots_of_groups_, slot, before)) {
      for (std::uint64_t at = 0; at < group_size; ++at) {
        std::uint64_t key = number_of(before, at);
        MDB_val k{sizeof key, &key};
        check(mdb_del(open_, objects_, &k, nullptr));
      }
    }
    for (std::uint64_t at = 0; at < group_size; ++at) {
      row made = row_of(serial, at);
      put(objects_, made.number, &made, row_bytes(at), MDB_APPEND);
    }
    put(slots_of_groups_, slot, &serial, sizeof serial, 0);
  }
  void settle() override { check(mdb_env_sync(environment_, 1)); }
  std::uint64_t sum(std::uint64_t slot) override {
    std::uint64_t serial = 0;
    if (!find(slots_of_groups_, slot, serial)) throw std::runtime_error("lmdb: a slot is gone");
    std::uint64_t sum = 0, key = number_of(serial, 0);
    for (std::uint64_t at = 0; at < group_size; ++at) {
      row found;
      if (!find(objects_, key, found, row_bytes(at))) throw std::runtime_error("lmdb: an object is gone");
      sum += found.number;
      key = found.next;
    }
    return sum;
  }
  void tidy() override {
    const auto copy = directory_ / "copy";
    std::filesystem::create_directory(copy);
    check(mdb_env_copy2(environment_, copy.c_str(), MDB_CP_COMPACT));
    close();
    std::filesystem::rename(copy / "data.mdb", directory_ / "lmdb" / "data.mdb");
    open();
  }
  void close() override {
    if (environment_ != nullptr) mdb_env_close(environment_);
    environment_ = nullptr;
  }
  std::string file() const override { return "lmdb/data.mdb"; }

 private:
  static void check(int code) {
    if (code != 0) throw std::runtime_error(fmt::format("lmdb: {}", mdb_strerror(code)));
  }
  void open() {
    check(mdb_env_create(&environment_));
    check(mdb_env_set_maxdbs(environment_, 2));
    check(mdb_env_set_mapsize(environment_, (std::size_t{1} << 30) + slots_ * group_bytes * 20));
    check(mdb_env_open(environment_, (directory_ / "lmdb").c_str(), MDB_NOSYNC, 0600));
    begin();
    check(mdb_dbi_open(open_, "object", MDB_CREATE | MDB_INTEGERKEY, &objects_));
    check(mdb_dbi_open(open_, "slot", MDB_CREATE | MDB_INTEGERKEY, &slots_of_groups_));
    commit();
  }
  template <class T>
  bool find(MDB_dbi in, std::uint64_t key, T& into, std::size_t bytes = sizeof(T)) {
    MDB_val k{sizeof key, &key}, v{};
    const int code = mdb_get(open_, in, &k, &v);
    if (code == MDB_NOTFOUND) return false;
    check(code);
    if (v.mv_size != bytes) throw std::runtime_error("lmdb: a record has another length");
    std::memcpy(&into, v.mv_data, bytes);
    return true;
  }
  void put(MDB_dbi in, std::uint64_t key, void* data, std::size_t bytes, unsigned flags) {
    MDB_val k{sizeof key, &key}, v{bytes, data};
    check(mdb_put(open_, in, &k, &v, flags));
  }

  MDB_env* environment_ = nullptr;
  MDB_txn* open_ = nullptr;
  MDB_dbi objects_ = 0, slots_of_groups_ = 0;
};

}  // namespace

std::unique_ptr<contender> make_lmdb(const std::filesystem::path& directory, std::uint64_t slots) {
  return std::make_unique<of_lmdb>(directory, slots);
}
#else
std::unique_ptr<contender> make_lmdb(const std::filesystem::path&, std::uint64_t) { return nullptr; }
#endif

}  // namespace tenure::bench::collect
