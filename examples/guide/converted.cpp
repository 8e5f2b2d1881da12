// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: the store of the first program, opened by one whose class has changed.
#include <iostream>

#include <tenure/evolve.hpp>
#include <tenure/tenure.hpp>

struct package {
  tenure::string title, version;
  tenure::vector<package*> needs;
  int downloads = 0;
};

template <>
struct tenure::evolve<package> {
  static void describe(tenure::changes<package>& of) {
    of.since(0)
        .renamed("name", "title")
        .renamed("depends", "needs")
        .converted([](const tenure::old_object& was, package& is, tenure::conversion&) {
          is.version = was.as<tenure::string>("name") == "libc6" ? "2.36" : "unknown";
        });
  }
};

int main() {
  try {
    tenure::store store{"packages", {.evolve = tenure::schema_change::convert}};
    auto& by_name = store.root<tenure::map<tenure::string, package*>>("by-name");
    for (const auto& [name, p] : by_name)
      std::cout << p->title << ' ' << p->version << " needs " << p->needs.size() << ", " << p->downloads
                << " downloads\n";
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
