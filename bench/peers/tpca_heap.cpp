// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The object heap: records are elements of vectors, and transactions change them like any others; nothing is declared.
#include <tenure/tenure.hpp>

#include "peers/tpca_contender.hpp"

namespace tenure::bench::tpca {
struct bank {
  tenure::vector<record> branches, tellers, accounts;
  tenure::vector<history> trail;
};

namespace {

class heap_contender : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return "changes found by page, nothing declared"; }

  void create() override {
    open();
    const layout& sizes = setup_.bank;
    fill(bank_->branches, sizes.branches);
    fill(bank_->tellers, sizes.tellers());
    fill(bank_->accounts, sizes.accounts);
    store_->transact([&] { bank_->trail.resize(sizes.trail()); });
    close();
  }
  void open() override {
    store_ = std::make_unique<tenure::store>((setup_.directory / "store").string());
    bank_ = &store_->root<bank>("bank");
  }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<heap_session>(*this); }
  // A durable commit makes those before it durable.
  void flush() override {
    auto last = store_->begin();
    last.commit(tenure::commit_mode::durable);
  }
  void checkpoint() override { flush(); }
  void audit(auditor& by) override {
    store_->read([&] {
      for (const record& one : bank_->accounts) by.account(one.balance, one.transactions);
      for (std::uint32_t i = 0; i < bank_->tellers.size(); ++i)
        by.teller(i, bank_->tellers[i].balance, bank_->tellers[i].transactions);
      for (std::uint32_t i = 0; i < bank_->branches.size(); ++i)
        by.branch(i, bank_->branches[i].balance, bank_->branches[i].transactions);
      for (std::size_t i = 0; i < bank_->trail.size(); ++i) by.trail(i, bank_->trail[i]);
    });
  }
  void close() override { store_.reset(); }

 private:
  class heap_session : public session {
   public:
    explicit heap_session(heap_contender& of) : of_(of) {}
    void run(const transfer& what) override {
      auto tx = of_.store_->begin();
      bank& in = *of_.bank_;
      record& branch = in.branches[what.branch];
      history& trail = in.trail[of_.setup_.bank.trail_index(what.branch, branch.transactions + 1)];
      apply(what, in.accounts[what.account], in.tellers[what.teller], branch, trail);
      tx.commit(of_.setup_.lazy ? tenure::commit_mode::lazy : tenure::commit_mode::durable);
    }

   private:
    heap_contender& of_;
  };

  void fill(tenure::vector<record>& records, std::uint64_t count) {
    store_->transact([&] {
      records.reserve(count);
      for (std::uint64_t i = 0; i < count; ++i) records.push_back(fresh_record(i));
    });
  }

  std::unique_ptr<tenure::store> store_;
  bank* bank_ = nullptr;
};

}  // namespace

std::unique_ptr<contender> make_heap(const setup& how) { return std::make_unique<heap_contender>(how); }

}  // namespace tenure::bench::tpca
