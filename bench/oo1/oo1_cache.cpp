// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo1/objects.hpp"
#include "worlds/cached_world.hpp"

namespace tenure::bench::oo1 {
namespace {

// A database with few parts stays in memory; of a large one a quarter does.
cache::options options_for(int parts, cache::concurrency transactions) {
  constexpr std::uint64_t bytes_per_part = 1600;
  cache::options how;
  how.transactions = transactions;
  if (static_cast<std::uint64_t>(parts) * bytes_per_part / 4 > how.object_bytes)
    how.object_bytes = static_cast<std::uint64_t>(parts) * bytes_per_part / 4;
  return how;
}

class cached_contender : public object_contender<cached_world> {
 public:
  cached_contender(const std::filesystem::path& directory, int parts, cache::concurrency transactions)
      : object_contender(directory, parts), how_(options_for(parts, transactions)) {}
  std::string setting() const override {
    cached_world::how = how_;
    return object_contender::setting();
  }
  void create() override {
    cached_world::how = how_;
    object_contender::create();
  }
  void open() override {
    cached_world::how = how_;
    object_contender::open();
  }

 private:
  const cache::options how_;
};

}  // namespace

std::unique_ptr<contender> make_cache(const std::filesystem::path& directory, int parts) {
  return std::make_unique<cached_contender>(directory, parts, cache::concurrency::one_writer);
}
std::unique_ptr<contender> make_cache_with_locks(const std::filesystem::path& directory, int parts) {
  return std::make_unique<cached_contender>(directory, parts, cache::concurrency::object_locks);
}

}  // namespace tenure::bench::oo1
