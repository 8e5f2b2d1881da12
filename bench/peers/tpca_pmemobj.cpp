// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libpmemobj with its pool in an ordinary file: the records lie in one object, transactions add the ranges that they
// change. Without persistent memory the library syncs with msync, so every transaction is durable; there is no lazy
// way.
#include "peers/tpca_contender.hpp"

#ifdef TENURE_HAVE_PMEMOBJ
#include <cerrno>
#include <stdexcept>

#include <fmt/format.h>
#include <libpmemobj.h>

namespace tenure::bench::tpca {
namespace {

class pmemobj_contender : public contender {
 public:
  using contender::contender;
  ~pmemobj_contender() override { close(); }

  std::string setting() const override {
    return fmt::format("{} bytes added, ordinary file", setup_.whole_records ? declared_whole : declared_fields);
  }
  void create() override {
    const std::size_t size = (std::size_t{64} << 20) + setup_.bank.bytes() * 2;
    pool_ = pmemobj_create(path().c_str(), "bank", size, 0600);
    if (pool_ == nullptr) fail("pmemobj_create");
    find_records();  // a new root is zeros
    fill(accounts_, setup_.bank.accounts);
    fill(tellers_, setup_.bank.tellers());
    fill(branches_, setup_.bank.branches);
    close();
  }
  void open() override {
    pool_ = pmemobj_open(path().c_str(), "bank");
    if (pool_ == nullptr) fail("pmemobj_open");
    find_records();
  }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<pmemobj_session>(*this); }
  void flush() override {}
  void checkpoint() override {}
  void audit(auditor& by) override {
    const layout& bank = setup_.bank;
    for (std::uint64_t i = 0; i < bank.accounts; ++i) by.account(accounts_[i].balance, accounts_[i].transactions);
    for (std::uint32_t i = 0; i < bank.tellers(); ++i) by.teller(i, tellers_[i].balance, tellers_[i].transactions);
    for (std::uint32_t i = 0; i < bank.branches; ++i) by.branch(i, branches_[i].balance, branches_[i].transactions);
    for (std::uint64_t i = 0; i < bank.trail(); ++i) by.trail(i, trail_[i]);
  }
  void close() override {
    if (pool_ != nullptr) pmemobj_close(pool_);
    pool_ = nullptr;
  }

 private:
  class pmemobj_session : public session {
   public:
    explicit pmemobj_session(pmemobj_contender& of) : of_(of) {}
    void run(const transfer& what) override {
      record& account = of_.accounts_[what.account];
      record& teller = of_.tellers_[what.teller];
      record& branch = of_.branches_[what.branch];
      history& trail = of_.trail_[of_.setup_.bank.trail_index(what.branch, branch.transactions + 1)];
      if (pmemobj_tx_begin(of_.pool_, nullptr, TX_PARAM_NONE) != 0) fail("pmemobj_tx_begin");
      // A failed call aborts the transaction by itself.
      const bool added =
          add(account) && add(teller) && add(branch) && pmemobj_tx_add_range_direct(&trail, sizeof(trail)) == 0;
      if (added) {
        apply(what, account, teller, branch, trail);
        pmemobj_tx_commit();
      }
      if (pmemobj_tx_end() != 0 || !added) fail("transaction");
    }

   private:
    bool add(record& one) {
      return (of_.setup_.whole_records ? pmemobj_tx_add_range_direct(&one, sizeof(one))
                                       : pmemobj_tx_add_range_direct(&one.balance, changed_bytes)) == 0;
    }
    pmemobj_contender& of_;
  };

  [[noreturn]] static void fail(const char* what) {
    throw std::runtime_error(fmt::format("libpmemobj: {}: {}", what, pmemobj_errormsg()));
  }
  std::filesystem::path path() const { return setup_.directory / "bank.pool"; }
  void find_records() {
    const layout& bank = setup_.bank;
    const PMEMoid root = pmemobj_root(pool_, bank.bytes());
    if (OID_IS_NULL(root)) fail("pmemobj_root");
    branches_ = static_cast<record*>(pmemobj_direct(root));
    tellers_ = branches_ + bank.branches;
    accounts_ = tellers_ + bank.tellers();
    trail_ = reinterpret_cast<history*>(accounts_ + bank.accounts);
  }
  void fill(record* records, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) records[i] = fresh_record(i);
    pmemobj_persist(pool_, records, count * sizeof(record));
  }

  PMEMobjpool* pool_ = nullptr;
  record *branches_ = nullptr, *tellers_ = nullptr, *accounts_ = nullptr;
  history* trail_ = nullptr;
};

}  // namespace

std::unique_ptr<contender> make_pmemobj(const setup& how) { return std::make_unique<pmemobj_contender>(how); }

}  // namespace tenure::bench::tpca
#else
namespace tenure::bench::tpca {
std::unique_ptr<contender> make_pmemobj(const setup&) { return nullptr; }
}  // namespace tenure::bench::tpca
#endif
