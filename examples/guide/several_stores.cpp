// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-stores.md: one transaction in several stores.
#include <iostream>
#include <stdexcept>

#include <tenure/tenure.hpp>
#include <tenure/transact_all.hpp>

struct account {
  std::int64_t balance = 100;
};
struct order {
  tenure::string what;
  std::int64_t price = 0;
};

int main() {
  try {
    tenure::store bank{"savings"};
    tenure::store_options how;
    how.memory.in_doubt = tenure::outcomes_of(bank);  // what a crash has left in doubt
    tenure::store shop{"purchases", how};

    auto& mine = bank.root<account>("mine");
    auto& orders = shop.root<tenure::vector<order>>("orders");
    const auto buy = [&](const char* what, std::int64_t price) {
      tenure::transact_all(bank, shop, [&] {
        orders.push_back({what, price});
        mine.balance -= price;
        if (mine.balance < 0) throw std::runtime_error("not enough money for " + std::string(what));
      });  // durable in both, or in none
    };

    buy("a book", 60);
    try {
      buy("another one", 60);
    } catch (const std::exception& e) {
      std::cout << e.what() << '\n';
    }
    std::cout << orders.size() << " order, " << mine.balance << " left\n";

    shop.close();
    bank.close();
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
