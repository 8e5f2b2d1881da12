// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: what persists, and what ends.
#include <iostream>

#include <tenure/tenure.hpp>

struct node {
  int value = 0;
  node* next = nullptr;
};

int main() {
  try {
    tenure::store store{"nodes"};
    auto& first = store.root<node*>("first");
    const auto show = [&](const char* name, const node* n) {
      std::cout << name << (store.is_persistent(n) ? " is persistent\n" : " is transient\n");
    };

    node *linked = nullptr, *alone = nullptr;
    store.transact([&] {
      linked = store.make<node>(node{1, nullptr});
      alone = store.make<node>(node{2, nullptr});
      first = linked;
    });
    show("linked", linked);
    show("alone", alone);

    store.transact([&] { linked->next = alone; });  // any later transaction may make it reachable
    show("alone", alone);

    store.transact([&] {
      linked->next = nullptr;
      store.destroy(alone);  // its destructor has run; its memory is free after the commit
    });

    for (const auto& [type, objects, bytes] : store.stats().total)
      if (type == "node") std::cout << objects << " nodes became persistent\n";
    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
