// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A user's program: makes a log and a segment in the directory given, commits, and finds the data when it opens them again.
#include <cstdint>
#include <cstdio>
#include <string>

#include <tenure/error.hpp>
#include <tenure/rvm.hpp>

namespace {

struct account {
  std::uint64_t balance;
};

void deposit(const std::string& directory, std::uint64_t amount) {
  tenure::rvm::memory memory{directory + "/bank.log", {.log = {.size = std::uint64_t{1} << 20}}};
  const tenure::rvm::region accounts =
      memory.map(directory + "/accounts.seg", {.create_length = std::uint64_t{1} << 16});
  auto& first = accounts.at<account>(0);
  memory.transact([&](tenure::rvm::transaction& tx) { tx.modify(first.balance, first.balance + amount); });
  memory.close();
}

std::uint64_t balance(const std::string& directory) {
  tenure::rvm::memory memory{directory + "/bank.log", {.mode = tenure::rvm::open_mode::open}};
  const tenure::rvm::region accounts = memory.map(directory + "/accounts.seg");
  return accounts.at<account>(0).balance;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    deposit(argv[1], 40);
    deposit(argv[1], 2);
    const std::uint64_t found = balance(argv[1]);
    if (found != 42) {
      std::fprintf(stderr, "the balance is %llu, not 42\n", static_cast<unsigned long long>(found));
      return 1;
    }
  } catch (const tenure::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
