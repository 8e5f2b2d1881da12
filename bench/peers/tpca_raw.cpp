// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The physical limit: as many bytes as a transaction logs, written to a preallocated, zero-filled file and synced.
// Lazy: the same bytes in writes of 1 MiB, synced by flush(). The bank itself is plain memory.
#include <cstring>
#include <vector>

#include "peers/bare_log.hpp"
#include "peers/tpca_contender.hpp"

namespace tenure::bench::tpca {
namespace {

constexpr std::size_t large_write = std::size_t{1} << 20;

class raw_contender : public contender {
 public:
  explicit raw_contender(const setup& how) : contender(how), bank_(how.bank) {}

  std::string setting() const override {
    return setup_.lazy ? "pwrite of 1 MiB, fdatasync at the end" : "pwrite + fdatasync";
  }
  void create() override { ring_file::create(path(), setup_.log_size); }
  void open() override {
    file_ = std::make_unique<ring_file>(path());
    waiting_.reserve(large_write + setup_.transaction_bytes);
    waiting_.clear();
    one_.assign(setup_.transaction_bytes, std::byte{0x5a});
  }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<raw_session>(*this); }
  void flush() override {
    write_waiting();
    sync();
  }
  void checkpoint() override { flush(); }
  void audit(auditor& by) override { bank_.audit(by); }
  void close() override {
    if (file_ != nullptr) flush();
    file_.reset();
  }
  counters count() const override { return {.log_bytes = written_, .syncs = syncs_}; }

 private:
  class raw_session : public session {
   public:
    explicit raw_session(raw_contender& of) : of_(of) {}
    void run(const transfer& what) override { of_.run(what); }

   private:
    raw_contender& of_;
  };

  std::filesystem::path path() const { return setup_.directory / "raw.log"; }

  void run(const transfer& what) {
    const auto at = bank_.run(what);
    std::memcpy(one_.data(), at.trail, sizeof(history));  // no two writes are the same
    if (!setup_.lazy) {
      file_->append(one_);
      written_ += one_.size();
      sync();
      return;
    }
    waiting_.insert(waiting_.end(), one_.begin(), one_.end());
    if (waiting_.size() >= large_write) write_waiting();
  }
  void write_waiting() {
    file_->append(waiting_);
    written_ += waiting_.size();
    waiting_.clear();
  }
  void sync() {
    file_->sync();
    ++syncs_;
  }

  memory_bank bank_;
  std::unique_ptr<ring_file> file_;
  std::vector<std::byte> one_, waiting_;
  std::uint64_t written_ = 0, syncs_ = 0;
};

}  // namespace

std::unique_ptr<contender> make_raw(const setup& how) { return std::make_unique<raw_contender>(how); }

}  // namespace tenure::bench::tpca
