// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Graphs that a mapped store makes and that a cache reads, and what is shared by the tests of the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/cache.hpp>
#include <tenure/tenure.hpp>

#include "support/expect_error.hpp"
#include "support/test_store.hpp"

namespace cache_test_types {

struct node {
  std::uint64_t id;
  tenure::cache::ref<node> edges[3];
  tenure::string name;
  tenure::vector<tenure::cache::ref<node>> more;
  tenure::transient<std::uint64_t> scratch;
  char ballast[40];
};
struct graph {
  std::uint64_t commits;
  tenure::vector<tenure::cache::ref<node>> entries;
};

}  // namespace cache_test_types

namespace tenure::support {

// What of a node does not refer to others.
inline std::uint64_t sum_of(const cache_test_types::node& n) {
  std::uint64_t sum = n.id * 31 + n.name.size();
  for (const char c : n.name) sum = sum * 31 + static_cast<unsigned char>(c);
  for (const char c : n.ballast) sum = sum * 31 + static_cast<unsigned char>(c);
  return sum;
}

// A store that is made mapped, and opened in a cache.
class cached_store : public ::testing::Test {
 protected:
  // Makes a store and lets f fill it.
  template <class F>
  void make(F&& f) {
    store made(path, how);
    f(made);
    expect_sound(made);
    made.close();
  }
  cache::store& open(cache::options with = {}) {
    with.memory = how.memory;
    with.typed_from = how.tune.typed_from;
    opened = std::make_unique<cache::store>(path, with);
    return *opened;
  }
  void close() {
    opened->check();
    opened->close();
    opened.reset();
  }
  // The store as the object heap sees it.
  template <class F>
  void look(F&& f) {
    opened.reset();
    store mapped(path, how);
    expect_sound(mapped);
    f(mapped);
  }

  temp_dir dir;
  std::string path = dir / "store";
  store_options how = small_store();
  std::unique_ptr<cache::store> opened;
};

}  // namespace tenure::support
