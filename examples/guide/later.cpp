// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: the program first.cpp, after somebody has changed its struct.
#include <iostream>

#include <tenure/tenure.hpp>

struct package {
  tenure::string name, version;
  tenure::vector<package*> depends;
};

int main() {
  try {
    tenure::store store{"packages"};
    auto& by_name = store.root<tenure::map<tenure::string, package*>>("by-name");
    std::cout << by_name.size() << " packages\n";
  } catch (const tenure::error& e) {
    std::cout << e.what() << '\n';
    return e.code() == tenure::errc::schema_mismatch ? 1 : 2;
  }
}
