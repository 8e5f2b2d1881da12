// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libpmemobj with its pool in /dev/shm, where it costs no msync, for lazy transactions, and in an ordinary file for durable
// ones. The records lie in one object; transactions add the words that they change.
#include "barriers/contender.hpp"

#ifdef TENURE_HAVE_PMEMOBJ
#include <stdexcept>

#include <fmt/format.h>
#include <libpmemobj.h>
#include <unistd.h>

namespace tenure::bench::barriers {
namespace {

class pmemobj_contender : public contender {
 public:
  ~pmemobj_contender() override {
    if (pool_ != nullptr) pmemobj_close(pool_);
    if (!in_memory_.empty()) std::filesystem::remove(in_memory_);
  }
  std::string setting() const override { return "each word added; lazy: the pool is in /dev/shm"; }
  void create(const setup& how) override {
    std::string path = (how.directory / "pool").string();
    if (!how.durable) path = in_memory_ = fmt::format("/dev/shm/tenure-bench-{}", ::getpid());
    const std::size_t bytes = how.records * sizeof(record);
    pool_ = pmemobj_create(path.c_str(), "records", (std::size_t{64} << 20) + 2 * bytes, 0600);
    if (pool_ == nullptr) fail("pmemobj_create");
    const PMEMoid root = pmemobj_root(pool_, bytes);  // zeros
    if (OID_IS_NULL(root)) fail("pmemobj_root");
    records_ = static_cast<record*>(pmemobj_direct(root));
  }
  void transact(std::span<const update> updates) override {
    if (pmemobj_tx_begin(pool_, nullptr, TX_PARAM_NONE) != 0) fail("pmemobj_tx_begin");
    bool added = true;  // a failed call aborts the transaction by itself
    for (const update& u : updates) {
      std::uint64_t& word = records_[u.record].words[u.word];
      added = added && pmemobj_tx_add_range_direct(&word, sizeof word) == 0;
      if (added) word = u.value;
    }
    if (added) pmemobj_tx_commit();
    if (pmemobj_tx_end() != 0 || !added) fail("transaction");
  }
  void flush() override {}
  std::uint64_t word(std::uint32_t record, std::uint32_t word) override { return records_[record].words[word]; }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw std::runtime_error(fmt::format("libpmemobj: {}: {}", what, pmemobj_errormsg()));
  }
  PMEMobjpool* pool_ = nullptr;
  record* records_ = nullptr;
  std::string in_memory_;
};

}  // namespace

std::unique_ptr<contender> make_pmemobj() { return std::make_unique<pmemobj_contender>(); }

}  // namespace tenure::bench::barriers
#else
namespace tenure::bench::barriers {
std::unique_ptr<contender> make_pmemobj() { return nullptr; }
}  // namespace tenure::bench::barriers
#endif
