// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: errors that one meets.
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>

#include <tenure/tenure.hpp>

struct person {
  tenure::string name;
  person* friend_of = nullptr;
  const char* remark = nullptr;
};

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  try {
    tenure::store store{"people", {.strict_tracking = true}};
    auto& people = store.root<tenure::vector<person*>>("people");
    if (people.empty()) store.transact([&] { people.push_back(store.make<person>()); });
    person& p = *people[0];

    if (which == "malloc") {
      const auto elsewhere = std::make_unique<person>();
      store.transact([&] { p.friend_of = elsewhere.get(); });
    }
    if (which == "stack") {
      person here;
      store.transact([&] {
        p.friend_of = store.make<person>();
        p.friend_of->friend_of = &here;
      });
    }
    if (which == "literal") {
      tenure::transaction tx = store.begin();
      p.remark = "a string literal is part of the program";
      try {
        tx.commit();
      } catch (const tenure::error& e) {
        if (e.code() != tenure::errc::cannot_persist) throw;
        std::cout << "still open: " << std::boolalpha << tx.is_open() << '\n';
        p.remark = nullptr;  // the cause is gone
        tx.commit();
      }
    }
    if (which == "stray") p.name = "written outside of any transaction";
    if (which == "upgrade") store.read([&] { store.transact([] {}); });
    if (which == "inner") {
      tenure::transaction outer = store.begin(), inner = store.begin();
      outer.commit();
    }
    if (which == "twice") tenure::store again{"people"};
  } catch (const std::exception& e) {
    std::cout << e.what() << '\n';
    return 1;
  }
}
