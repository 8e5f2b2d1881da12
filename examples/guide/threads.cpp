// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: reads and threads, lazy commits.
#include <iostream>
#include <thread>
#include <vector>

#include <tenure/tenure.hpp>

struct ledger {
  std::int64_t in = 0, out = 0;  // their sum is always 0
};

int main() {
  try {
    tenure::store store{"ledgers"};
    auto& l = store.root<ledger>("ledger");

    std::vector<std::jthread> threads;
    threads.reserve(8);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i)
          store.transact([&] {  // one at a time; readers wait, too
            ++l.in;
            --l.out;
          });  // while this waits for the disk, the others are let in
      });
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i)
          if (store.read([&] { return l.in + l.out; }) != 0) std::cout << "half a transaction was seen\n";
      });
    threads.clear();
    std::cout << l.in << " transactions\n";

    // Lazy: atomic and in order, but durable later.
    tenure::ticket last;
    for (int i = 0; i < 100; ++i) {
      tenure::transaction tx = store.begin();
      ++l.in;
      --l.out;
      last = tx.commit(tenure::commit_mode::lazy);
    }
    store.wait(last);  // durable here, all of them
    store.transact([&] { ++l.in, --l.out; }, tenure::commit_mode::lazy);
    store.flush();  // waits for whatever is committed
    std::cout << l.in << " transactions\n";

    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
