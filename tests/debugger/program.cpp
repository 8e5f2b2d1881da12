// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What tests/debugger/check.py looks at with gdb: stops in look(), and then writes where it may not.
#include <string>
#include <utility>

#include <tenure/tenure.hpp>

#include "store/store_state.hpp"  // as if the library had been compiled with -g

struct part {
  int number = 0;
  part* next = nullptr;
};
struct everything {
  tenure::string empty, small, large;
  tenure::vector<int> numbers;
  tenure::vector<tenure::string> texts;
  tenure::map<tenure::string, int> map;
  tenure::multimap<int, tenure::string> multimap;
  tenure::set<int> set;
  tenure::multiset<int> multiset;
  tenure::ordered_index<int, part*> index;
  tenure::hash_map<int, tenure::string> hash_map;
  tenure::hash_set<tenure::string> hash_set;
  tenure::map<int, int> nothing;
  tenure::hash_map<int, int> no_hash;
  tenure::transient<int> number;
  tenure::transient<part> inner;
  tenure::field<int> announced;
  tenure::field<part> announced_part;
};

[[gnu::noinline]] static void look(const everything&, const tenure::store_state*, const tenure::database_state*) {
  asm volatile("");
}

[[gnu::noinline]] static void write_where_it_may_not(everything& e) { e.numbers[0] = 7; }

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  tenure::store_options how;
  how.memory.log.size = 1 << 20;
  how.strict_tracking = true;
  how.create.reservation = std::uint64_t{1} << 28;
  how.create.home = 0x550000000000;
  tenure::store moved(argv[1], how);
  tenure::store store(std::move(moved));
  [[maybe_unused]] const tenure::database database = store.default_database();
  auto& e = store.root<everything>("everything");
  tenure::transaction tx = store.begin();
  e.small = "a \"small\" one";
  e.large = "one that does not fit into the string itself";
  e.numbers = {1, 2, 3};
  e.texts = {"x", "y"};
  for (int i = 0; i < 100; ++i) e.map[tenure::string(std::to_string(1000 + i))] = i;
  e.multimap.emplace(5, "five");
  e.multimap.emplace(5, "again five");
  e.set = {3, 1, 2};
  e.multiset = {2, 2, 1};
  e.index.insert(4, nullptr);
  e.hash_map[9] = "nine";
  e.hash_set.insert("only");
  e.number = 42;
  e.inner->number = 43;
  e.announced = 44;
  e.announced_part.change().number = 45;
  const auto in_map = e.map.find("1007");
  const auto at_end = e.map.end();
  const auto in_hash = e.hash_map.find(9);
  tx.commit();
  look(e, nullptr, nullptr);
  write_where_it_may_not(e);
  return in_map == at_end || in_hash == e.hash_map.end() ? 1 : 0;
}
