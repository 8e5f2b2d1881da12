// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Packages that depend on each other, in LMDB: a record a package, by its number.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <lmdb.h>

namespace {

struct package {
  std::uint64_t kib = 0;
  std::uint64_t depends[3] = {};
};

void check(int result) {
  if (result == 0) return;
  std::fprintf(stderr, "%s\n", mdb_strerror(result));
  std::exit(1);
}

void put(MDB_txn* in, MDB_dbi table, std::uint64_t number, package p) {
  MDB_val key{sizeof number, &number}, value{sizeof p, &p};
  check(mdb_put(in, table, &key, &value, 0));
}

package get(MDB_txn* in, MDB_dbi table, std::uint64_t number) {
  MDB_val key{sizeof number, &number}, value{};
  check(mdb_get(in, table, &key, &value));
  package p;
  std::memcpy(&p, value.mv_data, sizeof p);
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  MDB_env* environment = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi table = 0;
  check(mdb_env_create(&environment));
  check(mdb_env_set_mapsize(environment, std::size_t{1} << 30));
  check(mdb_env_open(environment, argv[1], 0, 0644));
  check(mdb_txn_begin(environment, nullptr, 0, &transaction));
  check(mdb_dbi_open(transaction, nullptr, MDB_CREATE | MDB_INTEGERKEY, &table));
  for (std::uint64_t i = 0; i < count; ++i) put(transaction, table, i, {i % 1000, {i / 2, i / 3, i / 4}});
  check(mdb_txn_commit(transaction));

  check(mdb_txn_begin(environment, nullptr, MDB_RDONLY, &transaction));
  std::vector<std::uint64_t> reached{count - 1};
  std::uint64_t kib = 0;
  for (std::size_t i = 0; i < reached.size() && reached.size() < 1000; ++i) {
    const package p = get(transaction, table, reached[i]);
    kib += p.kib;
    for (const std::uint64_t next : p.depends) reached.push_back(next);
  }
  mdb_txn_abort(transaction);
  mdb_env_close(environment);
  std::printf("%llu KiB in a closure\n", static_cast<unsigned long long>(kib));
}
