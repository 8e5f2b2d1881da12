// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "tpca/workload.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace tenure::bench::tpca {
namespace {

constexpr std::uint64_t accounts_per_page = 4096 / sizeof(record);

std::uint64_t mix(std::uint64_t& state) {  // splitmix64
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

[[noreturn]] void wrong(const std::string& what) { throw std::runtime_error("wrong answer: " + what); }

}  // namespace

record fresh_record(std::uint64_t id) {
  record fresh = {id, 0, 0, {}};
  std::uint64_t state = id;
  for (auto& byte : fresh.filler) byte = static_cast<std::byte>(mix(state));
  return fresh;
}

random_source::random_source(std::uint64_t seed) {
  for (auto& word : state_) word = mix(seed);
}

std::uint64_t random_source::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t random_source::below(std::uint64_t bound) {
  __extension__ using wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<wide>(next()) * bound) >> 64);
}

std::string_view name_of(pattern which) {
  switch (which) {
    case pattern::sequential: return "sequential";
    case pattern::uniform: return "uniform";
    case pattern::localized: return "localized";
  }
  return "?";
}

generator::generator(const layout& bank, pattern which, unsigned threads, unsigned thread, std::uint64_t seed)
    : bank_(bank),
      pattern_(which),
      accounts_(bank.accounts / threads),
      branches_(bank.branches / threads),
      random_(seed * 1000003 + thread) {
  first_account_ = accounts_ * thread;
  first_branch_ = branches_ * thread;
  if (which != pattern::localized) return;
  pages_.resize(static_cast<std::size_t>(accounts_ / accounts_per_page));
  std::iota(pages_.begin(), pages_.end(), 0U);
  random_source shuffler{99 + thread};  // the same hot pages in every run
  for (std::size_t i = pages_.size(); i > 1; --i) std::swap(pages_[i - 1], pages_[shuffler.below(i)]);
}

std::uint64_t generator::next_account() {
  if (pattern_ == pattern::sequential) return first_account_ + position_++ % accounts_;
  if (pattern_ == pattern::uniform) return first_account_ + random_.below(accounts_);
  // 70 % of transactions to 5 % of the pages, 25 % to another 15 %, 5 % to the remaining 80 % [RVM §7.1.1].
  const std::uint64_t hot = std::max<std::uint64_t>(1, pages_.size() / 20);
  const std::uint64_t warm = std::max<std::uint64_t>(1, pages_.size() * 3 / 20);
  const std::uint64_t chance = random_.below(100);
  std::uint64_t page = 0;
  if (chance < 70) {
    page = random_.below(hot);
  } else if (chance < 95) {
    page = hot + random_.below(warm);
  } else {
    page = hot + warm + random_.below(pages_.size() - hot - warm);
  }
  return first_account_ + pages_[page] * accounts_per_page + random_.below(accounts_per_page);
}

transfer generator::next() {
  const std::uint64_t account = next_account();
  const auto teller = static_cast<std::uint32_t>(first_branch_ * 10 + random_.below(branches_ * 10));
  const auto delta = static_cast<std::int64_t>(random_.below(1999999)) - 999999;
  return {account, teller, teller / 10, delta};
}

auditor::auditor(const layout& bank)
    : bank_(bank), tellers_(bank.branches), branches_(bank.branches), trail_(bank.trail()) {}

void auditor::account(std::int64_t balance, std::uint64_t transactions) {
  ++accounts_.seen;
  accounts_.balance += balance;
  accounts_.transactions += transactions;
}

void auditor::teller(std::uint32_t index, std::int64_t balance, std::uint64_t transactions) {
  if (index >= bank_.tellers()) wrong(fmt::format("there is a teller {}", index));
  auto& sum = tellers_[index / 10];
  ++sum.seen;
  sum.balance += balance;
  sum.transactions += transactions;
}

void auditor::branch(std::uint32_t index, std::int64_t balance, std::uint64_t transactions) {
  if (index >= bank_.branches) wrong(fmt::format("there is a branch {}", index));
  branches_[index] = {branches_[index].seen + 1, transactions, balance};
}

void auditor::trail(std::uint64_t index, std::uint64_t sequence, std::int64_t delta, std::int64_t total) {
  if (index >= trail_.size()) wrong(fmt::format("there is a trail record {}", index));
  trail_[index] = {sequence, delta, total};
}

void auditor::check_section(std::uint32_t branch) const {
  const auto& sum = branches_[branch];
  if (sum.seen != 1 || tellers_[branch].seen != 10)
    wrong(fmt::format("branch {} was seen {} times, with {} tellers", branch, sum.seen, tellers_[branch].seen));
  if (sum.balance != tellers_[branch].balance || sum.transactions != tellers_[branch].transactions)
    wrong(fmt::format("branch {} has balance {} after {} transactions, its tellers {} after {}", branch, sum.balance,
                      sum.transactions, tellers_[branch].balance, tellers_[branch].transactions));
  const std::uint64_t size = bank_.trail_of_branch();
  const std::uint64_t last = sum.transactions;
  const std::uint64_t first = last > size ? last - size + 1 : 1;
  for (std::uint64_t sequence = first; sequence <= last; ++sequence) {
    const auto& here = trail_[bank_.trail_index(branch, sequence)];
    if (here.sequence != sequence)
      wrong(fmt::format("trail of branch {}: record {} is in the place of {}", branch, here.sequence, sequence));
    const bool first_ever = sequence == 1;
    const std::int64_t before =
        sequence > first ? trail_[bank_.trail_index(branch, sequence - 1)].total : here.total - here.delta;
    if (before + here.delta != here.total || (first_ever && before != 0))
      wrong(fmt::format("trail of branch {}: record {} adds {} to {} and gets {}", branch, sequence, here.delta, before,
                        here.total));
  }
  // Nothing newer, that no branch knows of.
  if (last < size && trail_[bank_.trail_index(branch, last + 1)].sequence != 0)
    wrong(fmt::format("trail of branch {} goes on after record {}", branch, last));
  const std::int64_t total = last == 0 ? 0 : trail_[bank_.trail_index(branch, last)].total;
  if (total != sum.balance) wrong(fmt::format("branch {} has {}, its trail says {}", branch, sum.balance, total));
}

ledger auditor::agreed() const {
  if (accounts_.seen != bank_.accounts) wrong(fmt::format("{} accounts, not {}", accounts_.seen, bank_.accounts));
  ledger all;
  for (std::uint32_t branch = 0; branch < bank_.branches; ++branch) {
    check_section(branch);
    all.transactions += branches_[branch].transactions;
    all.sum += branches_[branch].balance;
  }
  if (accounts_.balance != all.sum || accounts_.transactions != all.transactions)
    wrong(fmt::format("accounts sum to {} after {} transactions, branches to {} after {}", accounts_.balance,
                      accounts_.transactions, all.sum, all.transactions));
  return all;
}

void auditor::expect(const ledger& expected) const {
  const ledger found = agreed();
  if (found.transactions != expected.transactions || found.sum != expected.sum)
    wrong(fmt::format("{} transactions summing to {}, but {} summing to {} were committed", found.transactions,
                      found.sum, expected.transactions, expected.sum));
}

}  // namespace tenure::bench::tpca
