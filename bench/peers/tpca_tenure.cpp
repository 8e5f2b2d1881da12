// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Recoverable memory: one log, one segment, one region. The records lie in the region as they are.
#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>
#include <tenure/rvm.hpp>

#include "peers/tpca_contender.hpp"

namespace tenure::bench::tpca {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + page - 1) / page * page; }

// The bank inside its region: branches, tellers, accounts, trail, each from a page boundary on.
struct places {
  std::span<record> branches, tellers, accounts;
  std::span<history> trail;

  static std::uint64_t length(const layout& bank) {
    return whole_pages(bank.branches * sizeof(record)) + whole_pages(bank.tellers() * sizeof(record)) +
           whole_pages(bank.accounts * sizeof(record)) + whole_pages(bank.trail() * sizeof(history));
  }
  static places in(const rvm::region& region, const layout& bank) {
    places found;
    std::uint64_t at = 0;
    found.branches = region.array<record>(at, bank.branches);
    at += whole_pages(found.branches.size_bytes());
    found.tellers = region.array<record>(at, bank.tellers());
    at += whole_pages(found.tellers.size_bytes());
    found.accounts = region.array<record>(at, bank.accounts);
    at += whole_pages(found.accounts.size_bytes());
    found.trail = region.array<history>(at, bank.trail());
    return found;
  }
};

class tenure_contender : public contender {
 public:
  using contender::contender;

  std::string setting() const override {
    return fmt::format("log {} MiB, {} bytes declared, {}", setup_.log_size >> 20,
                       setup_.whole_records ? declared_whole : declared_fields,
                       setup_.no_restore ? "no_restore" : "restore");
  }

  void create() override {
    rvm::memory::create_log(log(), {.size = setup_.log_size, .max_size = setup_.log_size});
    open_memory(places::length(setup_.bank));
    fill(at_.branches);
    fill(at_.tellers);
    fill(at_.accounts);
    close();
  }
  void open() override { open_memory(0); }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<tenure_session>(*this); }
  void flush() override { memory_->flush(); }
  void checkpoint() override { memory_->truncate(); }
  void audit(auditor& by) override {
    for (const auto& one : at_.accounts) by.account(one.balance, one.transactions);
    for (std::uint32_t i = 0; i < at_.tellers.size(); ++i)
      by.teller(i, at_.tellers[i].balance, at_.tellers[i].transactions);
    for (std::uint32_t i = 0; i < at_.branches.size(); ++i)
      by.branch(i, at_.branches[i].balance, at_.branches[i].transactions);
    for (std::size_t i = 0; i < at_.trail.size(); ++i) by.trail(i, at_.trail[i]);
  }
  void close() override {
    if (memory_ == nullptr) return;
    before_ = count();
    region_.unmap();
    memory_->close();
    memory_.reset();
  }
  counters count() const override {
    if (memory_ == nullptr) return before_;
    const auto now = memory_->stats();
    return {.log_bytes = before_.log_bytes.value_or(0) + now.log_bytes_written,
            .syncs = before_.syncs.value_or(0) + now.syncs,
            .logged = before_.logged.value_or(0) + now.bytes_logged,
            .intra_saved = before_.intra_saved.value_or(0) + now.intra_bytes_saved,
            .inter_saved = before_.inter_saved.value_or(0) + now.inter_bytes_saved,
            .truncations = before_.truncations.value_or(0) + now.incremental_truncations + now.epoch_truncations};
  }

 private:
  class tenure_session : public session {
   public:
    explicit tenure_session(tenure_contender& of) : of_(of) {}

    void run(const transfer& what) override {
      auto& at = of_.at_;
      record& account = at.accounts[what.account];
      record& teller = at.tellers[what.teller];
      record& branch = at.branches[what.branch];
      history& trail = at.trail[of_.setup_.bank.trail_index(what.branch, branch.transactions + 1)];
      auto tx = of_.memory_->begin(of_.setup_.no_restore ? rvm::restore_mode::no_restore : rvm::restore_mode::restore);
      if (of_.setup_.whole_records) {
        tx.set_range(account);
        tx.set_range(teller);
        tx.set_range(branch);
        tx.set_range(trail);
      } else {
        tx.set_range(&account.balance, changed_bytes);
        tx.set_range(&teller.balance, changed_bytes);
        tx.set_range(&branch.balance, changed_bytes);
        tx.set_range(&trail, history_bytes);
      }
      apply_fields(what, account, teller, branch, trail);
      tx.commit(of_.setup_.lazy ? rvm::commit_mode::no_flush : rvm::commit_mode::flush);
    }

   private:
    // As apply(), but leaves the trail's filler alone: it is not declared when only fields are.
    static void apply_fields(const transfer& what, record& account, record& teller, record& branch, history& trail) {
      history added;
      apply(what, account, teller, branch, added);
      std::memcpy(&trail, &added, history_bytes);
    }
    tenure_contender& of_;
  };

  std::string log() const { return (setup_.directory / "bank.log").string(); }

  void open_memory(std::uint64_t create_length) {
    rvm::options how;
    how.mode = rvm::open_mode::open;
    how.tune.truncation_threshold = setup_.truncation_threshold;
    if (setup_.spool_limit != 0) how.tune.spool_limit = setup_.spool_limit;
    if (setup_.archive) how.archive.emplace();
    if (setup_.memory != 0) how.recovery_memory = std::max<std::uint64_t>(setup_.memory / 8, 8 << 20);
    memory_ = std::make_unique<rvm::memory>(log(), how);
    region_ = memory_->map((setup_.directory / "bank.seg").string(), {.create_length = create_length});
    at_ = places::in(region_, setup_.bank);
  }

  // Writes fresh records, some at a time: a transaction must fit into the log.
  void fill(std::span<record> records) {
    constexpr std::size_t at_once = 4096;
    for (std::size_t from = 0; from < records.size(); from += at_once) {
      const auto part = records.subspan(from, std::min(at_once, records.size() - from));
      memory_->transact(
          [&](rvm::transaction& tx) {
            tx.set_range(part.data(), part.size_bytes());
            for (std::size_t i = 0; i < part.size(); ++i) part[i] = fresh_record(from + i);
          },
          rvm::commit_mode::no_flush);
    }
    memory_->truncate();
  }

  std::unique_ptr<rvm::memory> memory_;
  rvm::region region_;
  places at_;
  counters before_;
};

}  // namespace

std::unique_ptr<contender> make_tenure(const setup& how) { return std::make_unique<tenure_contender>(how); }

}  // namespace tenure::bench::tpca
