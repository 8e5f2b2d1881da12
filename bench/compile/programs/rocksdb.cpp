// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Packages that depend on each other, in RocksDB: a record a package, by its name.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>

namespace {

struct package {
  std::uint64_t kib = 0;
  std::uint64_t depends[3] = {};
};

void check(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

std::string name_of(std::uint64_t number) { return "package-" + std::to_string(number); }

package get(rocksdb::DB& from, std::uint64_t number) {
  std::string value;
  check(from.Get(rocksdb::ReadOptions(), name_of(number), &value));
  package p;
  std::memcpy(&p, value.data(), sizeof p);
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  check(rocksdb::DB::Open(options, argv[1], &opened));
  const std::unique_ptr<rocksdb::DB> database(opened);
  rocksdb::WriteBatch batch;
  for (std::uint64_t i = 0; i < count; ++i) {
    const package p{i % 1000, {i / 2, i / 3, i / 4}};
    check(batch.Put(name_of(i), rocksdb::Slice(reinterpret_cast<const char*>(&p), sizeof p)));
  }
  rocksdb::WriteOptions durably;
  durably.sync = true;
  check(database->Write(durably, &batch));

  std::vector<std::uint64_t> reached{count - 1};
  std::uint64_t kib = 0;
  for (std::size_t i = 0; i < reached.size() && reached.size() < 1000; ++i) {
    const package p = get(*database, reached[i]);
    kib += p.kib;
    for (const std::uint64_t next : p.depends) reached.push_back(next);
  }
  std::printf("%llu KiB in a closure\n", static_cast<unsigned long long>(kib));
}
