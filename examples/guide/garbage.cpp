// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: objects that nothing refers to any more.
#include <iostream>
#include <vector>

#include <tenure/tenure.hpp>

struct page {
  tenure::string text;
  page* next = nullptr;
};
using pages = tenure::vector<page*>;

int main() {
  try {
    tenure::store store{"pages"};
    auto& all = store.root<pages>("all");
    store.transact([&] {
      for (int n = 0; n < 1000; ++n) {
        all.push_back(store.make<page>());
        all.back()->text = "page " + std::to_string(n);
      }
      all[500]->next = all[501];
    });

    std::vector<page*> bookmarks{all[500]};  // in memory of malloc
    store.transact([&] { all.clear(); });    // 998 pages can be reached from nowhere
    const tenure::collect_report report = store.collect();
    for (const auto& [type, objects, bytes] : report.types)
      if (type == "page") std::cout << (objects > 900 ? "most" : "few") << " pages were garbage\n";
    std::cout << bookmarks[0]->text << " and " << bookmarks[0]->next->text << " are there\n";

    for (const tenure::use_after_collection& use : store.collect({.quarantine = tenure::quarantine::check}).uses)
      std::cerr << "somebody uses a " << use.type << " that transaction " << use.transaction
                << ", or one before it, has dropped\n";

    page*& first = store.root<page*>("to-read");
    store.transact([&] {
      for (int n = 0; n < 3; ++n) {
        page* const added = store.make<page>();
        added->next = first;
        first = added;
      }
    });
    store.transact([&] {
      page* const taken = first;
      first = taken->next;
      taken->next = nullptr;  // what looks like a pointer to it keeps it alone
    });
    const tenure::collect_report dense =
        store.collect({.roots = tenure::program_roots::handles, .evacuation = {.enabled = true}});
    if (dense.moved != 0) std::cout << dense.moved << " objects lie elsewhere now\n";
    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
