// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What tests make in caches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <tenure/allocator.hpp>

#include "cache/cached_graph.hpp"

namespace cache_making_types {

struct leaf {
  std::uint64_t number = 0;
  tenure::cache::ref<leaf> next;
  tenure::string text;
};
struct library {
  tenure::cache::ref<leaf> first;
  tenure::vector<tenure::cache::ref<leaf>> items;
  tenure::map<std::uint64_t, tenure::cache::ref<leaf>> by_number;
  tenure::hash_map<std::uint64_t, tenure::string> names;
  tenure::vector<tenure::vector<std::uint32_t>> rows;
  tenure::cache::ref<leaf> odd;
};
// No mapped store has seen these.
struct inner {
  std::uint32_t a, b;
};
struct outline {
  virtual ~outline() = default;
  [[nodiscard]] virtual std::uint64_t corners() const = 0;
  std::uint64_t id = 0;
  static constexpr auto persistent = tenure::members<&outline::id>{};
};
struct triangle : outline {
  [[nodiscard]] std::uint64_t corners() const override { return 3; }
  inner parts[2]{};
  tenure::transient<std::uint64_t> scratch;
  static constexpr auto persistent = tenure::bases<outline>{} + tenure::members<&triangle::parts, &triangle::scratch>{};
};
struct keeper {
  tenure::cache::ref<outline> one;
  tenure::vector<tenure::cache::ref<triangle>> all;
};
struct shelf_root {
  tenure::cache::ref<keeper> held;
};
struct alignas(64) broad {
  std::uint64_t words[8];
};
struct big {
  std::uint64_t words[3000];
};
using tenure_text = std::basic_string<char, std::char_traits<char>, tenure::allocator<char>>;
struct standard_rows {
  std::vector<std::uint64_t, tenure::allocator<std::uint64_t>> numbers;
  std::vector<tenure_text, tenure::allocator<tenure_text>> texts;
};
struct refuses {
  std::uint64_t number = 0;
  tenure::string text;
  explicit refuses(bool yes) : text("long enough to need memory of its own") {
    if (yes) throw std::runtime_error("no");
  }
  refuses() = default;
};

// The library makes two of them, to find their vtable.
struct eager {
  virtual ~eager() = default;
  tenure::string name = tenure::string("a name that needs memory from the begin");
  static constexpr auto persistent = tenure::members<&eager::name>{};
};

}  // namespace cache_making_types
namespace tenure::support {

class making_in_cache : public cached_store {
 protected:
  // Of which no word in memory keeps anything.
  static std::uint64_t garbage_in(store& mapped) {
    collection_options which;
    which.roots = program_roots::handles;
    return mapped.collect(which).garbage;
  }
  void make_library() {
    make([](store& s) { (void)s.root<cache_making_types::library>("library"); });
  }
  cache::ref<cache_making_types::library> shelves() { return opened->root<cache_making_types::library>("library"); }
  std::uint64_t file_size() const { return std::filesystem::file_size(path + "/main.db"); }
};

}  // namespace tenure::support
