// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-recoverable-memory.md: the first program.
#include <cstdint>
#include <cstdio>

#include <tenure/rvm.hpp>

namespace rvm = tenure::rvm;

struct account {
  std::int64_t balance;
  std::uint64_t changes;
};

int main() {
  try {
    rvm::memory memory{"bank.log"};  // creates the log, or opens it and recovers
    rvm::region accounts = memory.map("accounts.seg", {.create_length = 1 << 20});

    auto& account = accounts.at<::account>(0);
    std::printf("balance %lld after %llu changes\n", static_cast<long long>(account.balance),
                static_cast<unsigned long long>(account.changes));

    rvm::transaction tx = memory.begin();
    tx.set_range(account);  // before the change
    account.balance += 10;
    account.changes += 1;
    tx.commit();  // durable when it returns

    memory.close();  // reports what the destructor would swallow
  } catch (const tenure::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
