// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// docs/guide-recoverable-memory.md, and the README: ways to change something, and options.
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include <tenure/barriers.hpp>
#include <tenure/rvm.hpp>

namespace rvm = tenure::rvm;

struct account_record {
  std::int64_t balance;
};

void in_the_readme() {
  tenure::rvm::memory memory{"bank.log"};  // creates, or opens and recovers
  auto accounts = memory.map("accounts.seg", {.create_length = 1 << 20});
  auto& account = accounts.at<account_record>(0);
  auto tx = memory.begin();
  tx.set_range(account);  // about to change it
  account.balance += 10;
  tx.commit();  // durable here
}

void step_by_step(rvm::memory& memory, account_record& account) {
  rvm::transaction tx = memory.begin();

  tx.set_range(account);  // declare, then change
  account.balance = 5;

  tx.modify(account.balance, 5);  // both at once

  tx.commit();
}

void at_once(rvm::memory& memory, account_record& account) {
  memory.transact([&](rvm::transaction& tx) {  // begin, run, commit; abort if it throws
    tx.modify(account.balance, 5);
  });
}

void pay(rvm::memory& memory, account_record& from, account_record& to, account_record& fees) {
  memory.transact([&](rvm::transaction& tx) {
    tx.modify(from.balance, from.balance - 100);
    try {
      tx.transact_inner([&] {
        tx.modify(fees.balance, fees.balance + 5);
        tx.modify(from.balance, from.balance - 5);
        if (from.balance < 0) throw std::runtime_error("no money for the fee");
      });
    } catch (const std::runtime_error& e) {  // from and fees are as before the inner one
      std::printf("%s\n", e.what());
    }
    tx.modify(to.balance, to.balance + 100);
  });
}

void without_announcements(rvm::memory& memory) {
  rvm::region tracked =
      memory.map("tracked.seg", {.create_length = 1 << 20, .tracking = rvm::tracking_mode::automatic});

  rvm::transaction tx = memory.begin_automatic();
  tracked.at<account_record>(0).balance += 10;  // nothing to say
  tx.commit();                                  // logs the bytes that differ
}

void declared_by_barriers(rvm::memory& memory) {
  rvm::region accounts = memory.map("announced.seg", {.create_length = 1 << 20,  //
                                                      .barriers = rvm::write_barriers::announced});

  rvm::transaction tx = memory.begin();
  tenure::change(accounts.at<account_record>(0)).balance += 10;  // the compiler can say so, too
  tx.commit();
}

void checked() {
  rvm::memory memory{"bank.log", {.tune = {.check_undeclared = true}}};

  rvm::region accounts = memory.map("checked.seg", {.create_length = 1 << 20});
  rvm::transaction tx = memory.begin();
  accounts.at<account_record>(8).balance = 1;  // not declared
  try {
    tx.commit();
  } catch (const tenure::error& e) {
    std::printf("%s\n", e.what());
    tx.abort();
  }
}

void archived() {
  rvm::options how;
  how.archive = rvm::archive_options{.max_size = std::uint64_t{4} << 30};
  rvm::memory memory{"history.log", how};

  rvm::region accounts = memory.map("history.seg", {.create_length = 1 << 20});
  auto& account = accounts.at<account_record>(128);  // bytes from the region's start
  memory.transact([&](rvm::transaction& tx) {
    tx.label("deposit");
    tx.modify(account.balance, account.balance + 10);
  });
  memory.transact([&](rvm::transaction& tx) {
    tx.label("fee");
    tx.modify(account.balance, account.balance - 1);
  });
}

int main() {
  try {
    in_the_readme();
    rvm::memory memory{"ways.log"};
    rvm::region accounts = memory.map("ways.seg", {.create_length = 1 << 20});
    step_by_step(memory, accounts.at<account_record>(0));
    at_once(memory, accounts.at<account_record>(0));
    pay(memory, accounts.at<account_record>(0), accounts.at<account_record>(64), accounts.at<account_record>(128));
    without_announcements(memory);
    declared_by_barriers(memory);
    checked();
    archived();
  } catch (const tenure::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
