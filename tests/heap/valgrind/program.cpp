// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A life of a store, to be run under valgrind: its directory is the argument. Prints "right" if all is.
#include <cstdio>
#include <exception>
#include <string>

#include <tenure/tenure.hpp>

namespace valgrind_test {

struct node {
  node* next;
  tenure::string name;
};

struct list {
  node* first;
  std::uint64_t count;
  tenure::map<std::uint64_t, node*> by_number;
};

}  // namespace valgrind_test

namespace {

using namespace valgrind_test;

tenure::store open(const char* directory) {
  tenure::store_options how;
  how.create.reservation = std::uint64_t{1} << 35;  // valgrind has no room for more
  return tenure::store(directory, how);
}

bool run(const char* directory) {
  constexpr std::uint64_t each = 300;
  for (std::uint64_t round = 0; round < 3; ++round) {
    tenure::store s = open(directory);
    auto& all = s.root<list>("list");
    if (all.count != round * each || all.by_number.size() != all.count) return false;
    s.transact([&] {
      for (std::uint64_t i = 0; i < each; ++i) {
        node* const n = s.make<node>();
        n->name = "node number " + std::to_string(all.count);
        n->next = all.first;
        all.first = n;
        all.by_number.emplace(all.count++, n);
      }
    });
    {
      tenure::transaction tx = s.begin();
      all.first->name = "taken back";
      all.by_number.clear();
      tx.abort();
    }
    if (all.first->name != "node number " + std::to_string(all.count - 1) || !s.verify().empty()) return false;
    if (round == 1) s.close();
  }
  return true;
}

}  // namespace

int main(int, char** arguments) {
  try {
    std::puts(run(arguments[1]) ? "right" : "wrong");
  } catch (const std::exception& e) {
    std::puts(e.what());
  }
}
