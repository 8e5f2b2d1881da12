// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The commit that scripts/trace-commit shows: a transaction makes one object and enters it in a map.
//
//     commit commit|transaction STORE RECORD
//
// commit: records the commit alone. transaction: from begin() on. Earlier transactions have done the same already, so the
// record has nothing that happens only once.
#include <cstdio>
#include <cstring>
#include <string>

#include <tenure/tenure.hpp>

#include "recorder.hpp"

namespace bank {

struct account {
  tenure::string owner;
  long balance = 0;
};

using accounts = tenure::map<tenure::string, account*>;

}  // namespace bank

namespace {

void deposit(tenure::store& store, bank::accounts& by_owner, const std::string& owner) {
  auto* const made = store.make<bank::account>();
  made->owner = owner;
  made->balance = 100;
  by_owner[made->owner] = made;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: %s commit|transaction STORE RECORD\n", arguments[0]);
    return 2;
  }
  const bool whole = std::strcmp(arguments[1], "transaction") == 0;
  tenure::store store{arguments[2]};
  auto& by_owner = store.root<bank::accounts>("by-owner");
  for (int i = 0; i < 3; ++i) store.transact([&] { deposit(store, by_owner, "earlier " + std::to_string(i)); });

  if (whole) trace::begin();
  auto transaction = store.begin();
  deposit(store, by_owner, "recorded");
  if (!whole) trace::begin();
  transaction.commit();
  trace::end();

  trace::write(arguments[3]);
}
