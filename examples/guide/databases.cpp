// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: several databases.
#include <iostream>

#include <tenure/tenure.hpp>

struct author {
  tenure::string name;
};
struct book {
  tenure::string title;
  author* by = nullptr;
};

int main() {
  try {
    tenure::store store{"library"};
    auto authors = store.find_database("authors");
    if (!authors) authors = store.create_database("authors", {.reservation = std::uint64_t{1} << 30});

    store.transact([&] {
      auto* knuth = authors->make<author>();  // lives in this database
      knuth->name = "Donald E. Knuth, whose name needs memory of its own";
      authors->root<author*>("knuth") = knuth;

      auto& favourite = store.root<book>("favourite");  // in the default database
      favourite.title = "The Art of Computer Programming";
      favourite.by = knuth;  // from one database into another: a pointer
    });                      // both databases, or none

    const auto& favourite = store.root<book>("favourite");
    std::cout << favourite.title << ", by " << favourite.by->name << '\n';
    for (const tenure::database& db : store.databases()) std::cout << "database " << db.name() << '\n';

    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
