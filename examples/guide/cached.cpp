// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: a store in a cache.
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>

#include <tenure/cache.hpp>
#include <tenure/tenure.hpp>

struct station {
  tenure::string name;
  std::uint64_t passengers = 0;
  tenure::vector<tenure::cache::ref<station>> lines;
};
struct timetable {
  tenure::cache::map<tenure::string, tenure::cache::ref<station>> by_name;
};

int main() {
  try {
    {
      // Mapped: the root is made here, and so are most of the objects.
      tenure::store store{"stations"};
      auto& first = store.root<station>("first");
      store.transact([&] {
        first.name = "station 0";
        station* last = &first;
        for (int n = 1; n < 1000; ++n) {
          auto* const next = store.make<station>();
          next->name = tenure::string("station " + std::to_string(n));
          last->lines.push_back(next);
          last = next;
        }
      });
      store.close();
    }

    // In a cache: 16 pages, and 400 kB of objects.
    tenure::cache::store store{"stations", {.pool_pages = 16, .object_bytes = 400'000}};

    store.transact([&] {
      auto at = store.root<station>("first");
      at = at->lines[0];
      at.change().passengers += 40;
      at->lines[0].change().passengers += 2;
    });

    // A station more, and one less.
    store.transact([&] {
      const auto made = store.make<station>();
      made.change().name = "a station that was made in a cache";
      made.change().passengers = 7;
      const auto second = store.root<station>("first")->lines[0];
      const auto third = second->lines[0];
      made.change().lines.push_back(third->lines[0]);
      tenure::cache::change(second->lines[0]) = made;
      store.destroy(third);
      store.set_root("new", made);
    });

    // More objects than there is room for: from time to time what was reached is let go.
    std::uint64_t passengers = 0, stations = 0;
    {
      auto reading = store.begin_read();
      tenure::cache::identity<station> next = store.root<station>("first");
      while (next.home() != 0) {
        const auto at = next.get();
        passengers += at->passengers;
        next = at->lines.empty() ? nullptr : at->lines[0];
        if (++stations % 100 == 0) reading.release();
      }
    }
    std::cout << passengers << " passengers at " << stations << " stations\n";

    // What is pinned stays.
    const auto pinned = store.read([&] { return tenure::cache::pin(store.root<station>("first")->lines[0]); });
    std::cout << std::string_view(pinned->name) << " is in memory\n";

    // An index that is larger than the cache: nodes come and go.
    store.transact([&] {
      const auto index = store.make<timetable>();
      store.set_root("index", index);
      auto at = store.root<station>("first");
      for (int n = 0; n < 20; ++n, at = at->lines[0]) index->by_name.insert(at->name, at);
    });
    store.read([&] {
      const auto* const found = store.root<timetable>("index")->by_name.find("station 5");
      std::cout << "station 5 is followed by " << std::string_view((*found)->lines[0]->name) << '\n';
    });
  } catch (const tenure::error& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
