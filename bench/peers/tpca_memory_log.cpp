// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A bare log that stays in memory: redo records of a bank in plain memory, copied and checksummed one behind the other.
// The least that a lazy commit can cost the thread that makes it. Durable commits: the same, that is, not durable.
#include <cstddef>

#include "peers/bare_log.hpp"
#include "peers/tpca_contender.hpp"

namespace tenure::bench::tpca {
namespace {

class memory_contender : public contender {
 public:
  explicit memory_contender(const setup& how) : contender(how), bank_(how.bank) {}
  std::string setting() const override { return "memcpy + crc32c, never written"; }
  void create() override {}
  void open() override {
    log_ = std::make_unique_for_overwrite<std::byte[]>(setup_.log_size);  // touched as it fills, as any spool is
    used_ = 0;
  }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<memory_session>(*this); }
  void flush() override {}
  void checkpoint() override {}
  void audit(auditor& by) override { bank_.audit(by); }
  void close() override { log_.reset(); }
  counters count() const override { return {.log_bytes = appended_, .syncs = 0}; }

 private:
  class memory_session : public session {
   public:
    explicit memory_session(memory_contender& of) : of_(of), size_(encoded_size(of.setup_.whole_records)) {}
    void run(const transfer& what) override {
      if (of_.used_ + size_ > of_.setup_.log_size) of_.used_ = 0;
      encode(of_.bank_.run(what), of_.setup_.whole_records, of_.log_.get() + of_.used_);
      of_.used_ += size_;
      of_.appended_ += size_;
    }

   private:
    memory_contender& of_;
    std::size_t size_;
  };

  memory_bank bank_;
  std::unique_ptr<std::byte[]> log_;
  std::uint64_t used_ = 0, appended_ = 0;
};

}  // namespace

std::unique_ptr<contender> make_memory_log(const setup& how) { return std::make_unique<memory_contender>(how); }

}  // namespace tenure::bench::tpca
