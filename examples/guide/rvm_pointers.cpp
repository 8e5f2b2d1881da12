// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-recoverable-memory.md: pointers, and memory from an allocator.
#include <cstdio>
#include <cstring>

#include <tenure/loader.hpp>

namespace rvm = tenure::rvm;

struct person {
  char name[32];
  person* next;  // an ordinary pointer, into the same segment
};

int main() {
  try {
    rvm::memory memory{"town.log"};
    rvm::loaded_heap heap{memory, "town.seg", {.length = 1 << 20}};  // at the same address every time

    memory.transact([&](rvm::transaction& tx) {
      auto* p = heap->make<person>(tx);  // declared in the transaction, not yet filled
      std::snprintf(p->name, sizeof p->name, "visitor at %p", static_cast<void*>(p));
      p->next = heap->root<person>(0);
      heap->set_root(tx, 0, p);
    });
    for (auto* p = heap->root<person>(0); p != nullptr; p = p->next) std::puts(p->name);
  } catch (const tenure::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
