// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: containers.
#include <iostream>
#include <string_view>

#include <tenure/allocator.hpp>
#include <tenure/tenure.hpp>

struct song {
  tenure::string title;
  int year = 0;
};
struct collection {
  tenure::map<tenure::string, song*> by_title;   // in order
  tenure::hash_map<std::uint64_t, song*> by_id;  // by key only
  tenure::ordered_index<int, song*> by_year;     // many songs have the same year
  tenure::set<tenure::string> tags;
  tenure::std_map<tenure::std_string, int> plays;  // std::map and std::string, with memory of the store
};

int main() {
  try {
    tenure::store store{"music"};
    auto& all = store.root<collection>("songs");

    const auto add = [&](std::uint64_t id, std::string_view title, int year) {
      auto* s = store.make<song>();
      s->title = title;
      s->year = year;
      all.by_title[s->title] = s;
      all.by_id[id] = s;
      all.by_year.insert(year, s);
    };
    if (all.by_id.empty())
      store.transact([&] {
        add(1, "So What", 1959);
        add(2, "Take Five", 1959);
        add(3, "Impressions", 1963);
        all.tags.insert("jazz");
        ++all.plays["So What"];
      });

    if (auto at = all.by_title.find("Take Five"); at != all.by_title.end())  // no tenure::string is made
      std::cout << at->first << ": " << at->second->year << '\n';
    for (auto [i, last] = all.by_year.equal_range(1959); i != last; ++i)
      std::cout << "1959: " << i->second->title << '\n';
    std::cout << all.by_id.at(3)->title << " is number 3 of " << all.by_id.size() << '\n';

    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
