// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store with all kinds of containers on a simulated disk, of which pages are damaged, and what must be in it after a repair: what
// a model knows of its objects and of the page, which does not ask the library.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/cache/map.hpp>
#include <tenure/finalization_queue.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/hash_set.hpp>
#include <tenure/map.hpp>
#include <tenure/ordered_index.hpp>
#include <tenure/rewrite.hpp>
#include <tenure/rvm.hpp>
#include <tenure/set.hpp>
#include <tenure/tenure.hpp>
#include <tenure/weak.hpp>

#include "segments/format.hpp"
#include "segments/segment_layout.hpp"
#include "sim/disk.hpp"
#include "support/expect_error.hpp"
#include "support/test_store.hpp"

namespace tenure::damaged_types {

struct relic {
  std::uint64_t number;
  relic* other;  // the one before
  tenure::string name;
  std_string standard;
  std::optional<relic*> perhaps;
  weak<relic> weakly;
  std_vector<relic*> near;
};
struct relics {
  tenure::vector<relic*> all;
  tenure::vector<std::uint64_t> numbers;  // large
  tenure::map<std::uint64_t, relic*> tree;
  tenure::map<tenure::string, std::uint64_t> by_name;
  tenure::set<relic*> pointers;
  tenure::ordered_index<std::uint64_t, relic*> index;
  tenure::hash_map<std::uint64_t, relic*> table;
  tenure::hash_map<tenure::string, std::uint64_t> named;
  tenure::hash_set<relic*> hashed_pointers;
  std_vector<std_string> words;
  std_list<relic*> list;
  std_forward_list<std::uint64_t> forward;
  std_deque<std::uint64_t> queue;
  std_map<std::uint64_t, relic*> sorted;
  std_map<std_string, std::uint64_t> standard_names;
  std_set<relic*> standard_set;
  std_unordered_map<std::uint64_t, relic*> hashed;
  std_unordered_map<std_string, std::uint64_t> standard_hashed;
  finalization_queue<relic> watched;
};

struct numbered_text {
  std::uint64_t number;
  std_string text;  // short ones lie in the string, which refers to itself
};
struct texts_with_index {
  tenure::hash_map<std::uint64_t, std::uint64_t> numbers;  // of many pages
  tenure::map<tenure::string, numbered_text> texts;
  tenure::vector<numbered_text*> entries;  // of `texts`
};
struct maps_of_texts {
  tenure::map<tenure::string, std::uint64_t> map;
  tenure::cache::map<tenure::string, std::uint64_t> of_cache;
};
struct large_keys {
  tenure::map<tenure::string, std::uint64_t> map;
  tenure::set<tenure::string> set;
  tenure::multimap<tenure::string, std::uint64_t> multimap;
  tenure::cache::map<tenure::string, std::uint64_t> of_cache;
  tenure::hash_map<tenure::string, std::uint64_t> table;
  tenure::hash_set<tenure::string> table_set;
  std_map<std_vector<std_string>, std::uint64_t> nested;
  std_map<std_string, std::uint64_t> standard;
  std_unordered_map<std_string, std::uint64_t> hashed;
};
struct pointers_to_containers {
  tenure::vector<std_list<std::uint64_t>*> lists;
  tenure::vector<std_map<std::uint64_t, std::uint64_t>*> maps;
  tenure::vector<std_unordered_map<std::uint64_t, std::uint64_t>*> tables;
  tenure::vector<tenure::map<std::uint64_t, std::uint64_t>*> trees;
  tenure::vector<std::uint64_t> numbers;  // of many pages
};

}  // namespace tenure::damaged_types

namespace tenure::support {

using namespace tenure::damaged_types;

// Not in the strings themselves.
inline std::string name_of(std::uint64_t n) { return "the relic that has the number " + std::to_string(n); }
template <class S>
S named_text(std::uint64_t n) {
  return S(name_of(n).c_str());
}

inline constexpr std::uint64_t number_count = 3 * 8192;  // of 24 blocks of 8 KiB; several pages are whole elements

inline void fill(store& s, relics& root, std::uint64_t count) {
  s.transact([&] {
    relic* last = nullptr;
    for (std::uint64_t n = 0; n < count; ++n) {
      auto* const t = s.make<relic>();
      t->number = n;
      t->other = last;
      t->name = named_text<tenure::string>(n);
      t->standard = named_text<std_string>(n);
      if (n % 2 == 0) t->perhaps = last;
      if (last != nullptr) t->weakly = weak(last);
      t->near.push_back(t);
      root.all.push_back(t);
      root.tree[n] = t;
      root.by_name[t->name] = n;
      root.pointers.insert(t);
      root.index.insert(n / 3, t);
      root.table[n] = t;
      root.named[t->name] = n;
      root.hashed_pointers.insert(t);
      root.words.push_back(t->standard);
      root.list.push_back(t);
      root.forward.push_front(n);
      root.queue.push_back(n);
      root.sorted[n] = t;
      root.standard_names[t->standard] = n;
      root.standard_set.insert(t);
      root.hashed[n] = t;
      root.standard_hashed[t->standard] = n;
      root.watched.watch(t);
      last = t;
    }
    for (std::uint64_t n = 0; n < number_count; ++n) root.numbers.push_back(n * n + 1);
  });
}

inline constexpr std::uint64_t page = rvm::redo_page;

// What a repair has said.
struct findings {
  repair_report report;
  std::map<std::uint64_t, std::string> containers;
  std::set<std::uint64_t> cut, lost;
  std::vector<std::string> texts;
  void add(const repair_finding& f) {
    texts.push_back(f.text);
    using enum repair_finding::kind;
    if (f.what == container) containers[f.address] = f.text;
    if (f.what == cut_reference) cut.insert(f.address);
    if (f.what == lost_object) lost.insert(f.address);
  }
};

// Flips a bit of the byte at an offset of the database "/store/main.db".
inline void damage_byte(sim::disk& disk, std::uint64_t offset) {
  rvm::segment_header h;
  const auto bytes = disk.current_bytes("/store/main.db");
  std::memcpy(&h, bytes.data(), sizeof h);
  const std::uint64_t at = rvm::segment_layout(h).find(offset / page * page, page).at + offset % page;
  const std::byte with = bytes[at] ^ std::byte{1};
  disk.poke("/store/main.db", at, {&with, 1});
}

// The word at an offset of that database, in a transaction of recoverable memory, which knows nothing of objects.
inline void overwrite(sim::disk& disk, std::uint64_t offset, std::uint64_t value) {
  rvm::options as;
  as.disk = &disk;
  as.mode = rvm::open_mode::open;
  as.background = false;
  rvm::memory memory("/store/log", as);
  const rvm::region mapped = memory.map("/store/main.db");
  memory.transact([&](rvm::transaction& tx) { tx.modify(mapped.at<std::uint64_t>(offset), value); });
}

inline findings repaired(sim::disk& disk, const std::string& to = {}) {
  findings found;
  repair_options how;
  how.disk = &disk;
  how.to = to;
  how.on_finding = [&](const repair_finding& f) { found.add(f); };
  found.report = repair("/store", how);
  return found;
}

}  // namespace tenure::support
