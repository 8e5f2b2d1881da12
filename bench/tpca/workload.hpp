// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The TPC-A variant of [RVM §7.1.1]: a bank of accounts, tellers, branches and an audit trail.
//
// One transaction adds a delta to an account, its teller and its branch and appends a record to the trail, which wraps.
// Each branch has ten tellers and a section of the trail of its own; a thread works for the branches that are its own,
// so threads never want the same record, and no contender needs locks between them.
//
// The check: a branch counts its transactions, so a trail record knows its place and its sequence number; it also holds
// the branch's total after it. The newest record of a section therefore still accounts for all that were overwritten,
// and the records that remain must form an unbroken chain up to it. Sums of accounts = tellers = branches = trail
// follow, at any time, also after a crash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::bench::tpca {

// An account, a teller or a branch.
struct record {
  std::uint64_t id;
  std::int64_t balance;
  std::uint64_t transactions;
  std::array<std::byte, 104> filler;
};
static_assert(sizeof(record) == 128);

struct history {
  std::uint64_t sequence;  // 1 … in its branch; 0: never written
  std::uint64_t account;
  std::uint32_t teller, branch;
  std::int64_t delta;
  std::int64_t total;  // of the branch, this delta included
  std::array<std::byte, 24> filler;
};
static_assert(sizeof(history) == 64);

// What the fields that change occupy: balance and transactions; everything but the filler.
inline constexpr std::size_t changed_bytes = 16;
inline constexpr std::size_t history_bytes = offsetof(history, filler);
inline constexpr std::size_t declared_whole = 3 * sizeof(record) + sizeof(history);
inline constexpr std::size_t declared_fields = 3 * changed_bytes + history_bytes;

// Sizes of the bank. The trail takes as many bytes as the accounts.
struct layout {
  std::uint64_t accounts;  // a multiple of 32 * branches, so that every branch has whole pages of them
  std::uint32_t branches;
  [[nodiscard]] std::uint32_t tellers() const { return 10 * branches; }
  [[nodiscard]] std::uint64_t trail() const { return 2 * accounts; }
  [[nodiscard]] std::uint64_t trail_of_branch() const { return trail() / branches; }
  [[nodiscard]] std::uint64_t bytes() const {
    return accounts * sizeof(record) + trail() * sizeof(history) + (tellers() + branches) * sizeof(record);
  }
  // Where the `sequence`th record of a branch goes.
  [[nodiscard]] std::uint64_t trail_index(std::uint32_t branch, std::uint64_t sequence) const {
    return branch * trail_of_branch() + (sequence - 1) % trail_of_branch();
  }
};

struct transfer {
  std::uint64_t account;
  std::uint32_t teller, branch;
  std::int64_t delta;
};

// Carries a transfer out on records in memory; the caller has found their places.
inline void apply(const transfer& t, record& account, record& teller, record& branch, history& trail) {
  account.balance += t.delta;
  ++account.transactions;
  teller.balance += t.delta;
  ++teller.transactions;
  branch.balance += t.delta;
  ++branch.transactions;
  trail = {branch.transactions, t.account, t.teller, t.branch, t.delta, branch.balance, {}};
}

// What a bank looks like before the first transaction. The filler is not zero, and does not compress.
[[nodiscard]] record fresh_record(std::uint64_t id);

// xoshiro256**, seeded by splitmix64: the same numbers everywhere.
class random_source {
 public:
  explicit random_source(std::uint64_t seed);
  std::uint64_t next();
  // Uniform in [0, bound).
  std::uint64_t below(std::uint64_t bound);

 private:
  std::array<std::uint64_t, 4> state_;
};

enum class pattern { sequential, uniform, localized };
[[nodiscard]] std::string_view name_of(pattern which);

// The transfers of one thread. Deterministic.
class generator {
 public:
  // Thread `thread` of `threads`, which divides the number of branches.
  generator(const layout& bank, pattern which, unsigned threads, unsigned thread, std::uint64_t seed);
  [[nodiscard]] transfer next();

 private:
  [[nodiscard]] std::uint64_t next_account();
  layout bank_;
  pattern pattern_;
  std::uint64_t first_account_, accounts_;
  std::uint32_t first_branch_, branches_;
  std::uint64_t position_ = 0;
  std::vector<std::uint32_t> pages_;  // localized: the pages, shuffled; the first 5 % are hot, the next 15 % warm
  random_source random_;
};

// What a bank must hold: kept outside of it by whoever runs transactions on it.
struct ledger {
  std::uint64_t transactions = 0;
  std::int64_t sum = 0;
  void add(const transfer& t) { ++transactions, sum += t.delta; }
  void add(const ledger& other) { transactions += other.transactions, sum += other.sum; }
};

// Is shown every record of a bank, in any order, and then judges.
class auditor {
 public:
  explicit auditor(const layout& bank);
  void account(std::int64_t balance, std::uint64_t transactions);
  void teller(std::uint32_t index, std::int64_t balance, std::uint64_t transactions);
  void branch(std::uint32_t index, std::int64_t balance, std::uint64_t transactions);
  // Only records that were ever written (sequence not 0) matter.
  void trail(std::uint64_t index, std::uint64_t sequence, std::int64_t delta, std::int64_t total);
  void trail(std::uint64_t index, const history& of) { trail(index, of.sequence, of.delta, of.total); }

  // What all four agree on. Throws std::runtime_error, saying what differs, if they do not.
  [[nodiscard]] ledger agreed() const;
  // Throws if that is not what was expected.
  void expect(const ledger& expected) const;

 private:
  struct sums {
    std::uint64_t seen = 0, transactions = 0;
    std::int64_t balance = 0;
  };
  struct link {
    std::uint64_t sequence = 0;
    std::int64_t delta = 0, total = 0;
  };
  void check_section(std::uint32_t branch) const;
  layout bank_;
  sums accounts_;
  std::vector<sums> tellers_, branches_;  // by branch
  std::vector<link> trail_;
};

}  // namespace tenure::bench::tpca
