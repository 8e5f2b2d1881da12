// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: opening, and roots.
#include <cstdlib>
#include <iostream>
#include <string>

#include <tenure/tenure.hpp>

struct counter {
  std::uint64_t starts = 0;
};

int main() {
  try {
    tenure::store_options how;
    how.memory.log.size = 4 << 20;                      // bytes; a small log is enough for a small program
    how.create.reservation = std::uint64_t{256} << 20;  // bytes that the database can grow to
    tenure::store store{"counting", how};

    const tenure::rvm::recovery_report& found = store.recovery();
    std::cout << "recovered " << found.transactions << " transactions\n";

    auto& c = store.root<counter>("counter");  // made, by counter{}, the first time
    store.transact([&] { ++c.starts; });
    std::cout << "start " << c.starts << '\n';

    if (const counter* other = store.find_root<counter>("other"); other == nullptr) std::cout << "no root \"other\"\n";
    try {
      (void)store.root<double>("counter");
    } catch (const tenure::error& e) {
      std::cout << e.what() << '\n';
    }

    for (const std::string& name : store.root_names()) std::cout << "root " << name << '\n';
    std::cout << std::flush;
    if (c.starts == 2) std::_Exit(0);  // as if it had been killed: nothing is closed
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
