// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: references that keep nothing.
#include <iostream>

#include <tenure/tenure.hpp>

struct picture {
  tenure::string file;
};
struct album {
  tenure::vector<picture*> pictures;
  tenure::weak<picture> cover;
};

int main() {
  try {
    tenure::store store{"albums"};
    auto& all = store.root<album>("holidays");
    auto& notes = store.root<tenure::weak_map<picture, tenure::string>>("notes");
    auto& unused = store.root<tenure::finalization_queue<picture>>("unused");
    store.transact([&] {
      for (const char* name : {"sea.jpg", "hill.jpg"}) {
        auto* made = store.make<picture>();
        made->file = name;
        all.pictures.push_back(made);
        unused.watch(made);
      }
      all.cover = tenure::weak(all.pictures[0]);
      notes[all.pictures[0]] = "too dark";
    });

    store.transact([&] { all.pictures.erase(all.pictures.begin()); });
    store.collect({.roots = tenure::program_roots::handles});
    std::cout << (all.cover.lock() == nullptr ? "no cover" : "a cover") << '\n';
    store.transact([&] {
      while (const picture* gone = unused.take()) std::cout << "remove " << gone->file << '\n';
      std::cout << notes.purge() << " note was about it\n";
    });
    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
