// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The first program of docs/guide-stores.md, and of the README.
#include <iostream>

#include <tenure/tenure.hpp>

struct package {  // an ordinary struct: no base class, no macro
  tenure::string name;
  tenure::vector<package*> depends;  // ordinary pointers
};

int main() {
  try {
    tenure::store store{"packages"};  // creates, or opens and recovers
    auto& by_name = store.root<tenure::map<tenure::string, package*>>("by-name");

    std::cout << by_name.size() << " packages\n";
    for (const auto& [name, p] : by_name) std::cout << "  " << p->name << " at " << p << '\n';

    if (by_name.empty()) {
      store.transact([&] {
        auto* p = store.make<package>();  // nothing says "persistent": reachability decides
        p->name = "libc6";
        by_name[p->name] = p;  // an ordinary store, nothing to announce
      });                      // durable here; an exception rolls memory back
    } else if (!by_name.contains("bash")) {
      store.transact([&] {
        auto* bash = store.make<package>(package{"bash", {by_name.at("libc6")}});
        by_name[bash->name] = bash;
      });
    }

    store.close();  // reports what the destructor would swallow
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
