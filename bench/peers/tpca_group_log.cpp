// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A bare log with group commit: redo records of a bank in plain memory. Whoever finds nobody writing writes and syncs
// for all that wait. No truncation, no recovery: the least that concurrent durable commits can cost.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include <sched.h>

#include "peers/bare_log.hpp"
#include "peers/tpca_contender.hpp"

namespace tenure::bench::tpca {
namespace {

constexpr std::size_t block = 4096;

class group_log {
 public:
  explicit group_log(const std::filesystem::path& path) : file_(path) {}

  // Returns when the record is durable.
  void commit(std::span<const std::byte> record) {
    std::unique_lock lock{mutex_};
    filling_.insert(filling_.end(), record.begin(), record.end());
    const std::uint64_t mine = ++appended_;
    while (durable_ < mine) {
      if (writing_) {
        changed_.wait(lock);
        continue;
      }
      lead(lock);
    }
  }
  std::uint64_t written() const { return written_; }
  std::uint64_t syncs() const { return syncs_; }

 private:
  using clock = std::chrono::steady_clock;

  void lead(std::unique_lock<std::mutex>& lock) {
    writing_ = true;
    await_others(lock);
    std::swap(filling_, full_);
    const std::uint64_t upto = appended_;
    lock.unlock();
    full_.resize((full_.size() + block - 1) / block * block);
    const auto start = clock::now();
    file_.append(full_);
    file_.sync();
    patience_ = (clock::now() - start) / 4;
    written_ += full_.size();
    ++syncs_;
    full_.clear();
    lock.lock();
    expected_ = appended_ - durable_;  // those that are let go now, and those that wait already
    durable_ = upto;
    writing_ = false;
    changed_.notify_all();
  }

  // Whom the last sync let go will be back at once, most likely. Without this, one thread and all the others take
  // turns: twice the syncs.
  void await_others(std::unique_lock<std::mutex>& lock) {
    const auto limit = clock::now() + patience_;
    while (appended_ - durable_ < expected_ && clock::now() < limit) {
      lock.unlock();
      ::sched_yield();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  ring_file file_;
  std::vector<std::byte> filling_;  // guarded by mutex_
  std::vector<std::byte> full_;     // the leader's
  std::uint64_t appended_ = 0, durable_ = 0;
  std::uint64_t written_ = 0, syncs_ = 0;
  std::uint64_t expected_ = 0;  // records in the next batch, if all come back
  clock::duration patience_{};  // how long to wait for them: a part of what a sync takes
  bool writing_ = false;
};

class group_contender : public contender {
 public:
  explicit group_contender(const setup& how) : contender(how), bank_(how.bank) {}
  std::string setting() const override { return "redo records, leader syncs for all"; }
  void create() override { ring_file::create(path(), setup_.log_size); }
  void open() override { log_ = std::make_unique<group_log>(path()); }
  std::unique_ptr<session> start(unsigned) override { return std::make_unique<group_session>(*this); }
  void flush() override {}
  void checkpoint() override {}
  void audit(auditor& by) override { bank_.audit(by); }
  void close() override {
    if (log_ == nullptr) return;
    written_ += log_->written();
    syncs_ += log_->syncs();
    log_.reset();
  }
  counters count() const override {
    return {.log_bytes = written_ + (log_ ? log_->written() : 0), .syncs = syncs_ + (log_ ? log_->syncs() : 0)};
  }

 private:
  class group_session : public session {
   public:
    explicit group_session(group_contender& of) : of_(of), record_(encoded_size(of.setup_.whole_records)) {}
    void run(const transfer& what) override {
      encode(of_.bank_.run(what), of_.setup_.whole_records, record_.data());
      of_.log_->commit(record_);
    }

   private:
    group_contender& of_;
    std::vector<std::byte> record_;
  };
  std::filesystem::path path() const { return setup_.directory / "group.log"; }

  memory_bank bank_;
  std::unique_ptr<group_log> log_;
  std::uint64_t written_ = 0, syncs_ = 0;
};

}  // namespace

std::unique_ptr<contender> make_group_log(const setup& how) { return std::make_unique<group_contender>(how); }

}  // namespace tenure::bench::tpca
