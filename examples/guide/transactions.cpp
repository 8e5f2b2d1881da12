// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: transactions.
#include <iostream>
#include <stdexcept>

#include <tenure/tenure.hpp>

struct account {
  std::int64_t cents = 0;
};

int main() {
  try {
    tenure::store store{"bank"};
    auto& mine = store.root<account>("mine");
    auto& yours = store.root<account>("yours");
    const auto show = [&](const char* when) {
      std::cout << when << ": " << mine.cents << " and " << yours.cents << '\n';
    };

    // A transaction is an object.
    tenure::transaction tx = store.begin();
    mine.cents = 1000;
    yours.cents = 0;
    tx.label("opening");  // for the history
    tx.commit();
    show("committed");

    // abort() puts memory back; so does the destructor of an open transaction.
    tx = store.begin();
    mine.cents -= 700;
    tx.abort();
    show("aborted");

    // With a closure there is nothing to forget.
    const auto left = store.transact([&] {
      mine.cents -= 300;
      yours.cents += 300;
      return mine.cents;
    });
    std::cout << "left: " << left << '\n';

    // An exception rolls back, and goes on.
    try {
      store.transact([&] {
        mine.cents -= 5000;
        yours.cents += 5000;
        if (mine.cents < 0) throw std::runtime_error("not enough money");
      });
    } catch (const std::runtime_error& e) {
      std::cout << e.what() << '\n';
    }
    show("rolled back");

    // checkpoint() commits and goes on without letting anybody in between; an abort goes back to it.
    tx = store.begin();
    mine.cents += 1;
    tx.checkpoint();
    mine.cents += 1000;
    tx.abort();
    show("checkpoint");

    // chain() commits and begins anew; others may come in between.
    tx = store.begin();
    for (int i = 0; i < 3; ++i) {
      mine.cents += 10;
      tx.chain();
    }
    std::cout << "open: " << std::boolalpha << tx.is_open() << '\n';
    tx.abort();
    show("chained");

    // Functions that open transactions can call each other: the outermost commits.
    const auto deposit = [&](account& to, std::int64_t cents) { store.transact([&] { to.cents += cents; }); };
    store.transact([&] {
      deposit(mine, 5);
      deposit(yours, 5);
    });
    show("nested");

    // A transaction in a transaction can be undone without the rest.
    store.transact([&] {
      deposit(mine, 100);
      try {
        store.transact([&] {
          deposit(mine, -5000);
          deposit(yours, 5000);
          if (mine.cents < 0) throw std::runtime_error("not enough money");
        });
      } catch (const std::runtime_error& e) {
        std::cout << e.what() << ", but the rest is kept\n";
      }
    });
    show("rolled back in part");

    store.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
