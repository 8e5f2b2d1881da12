// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores with every means of finding writes, and recoverable memory, where set_range declares them. The records are objects
// of their own, made one after the other.
#include <cstring>
#include <optional>

#include <tenure/barriers.hpp>
#include <tenure/rvm.hpp>
#include <tenure/tenure.hpp>

#include "barriers/contender.hpp"

namespace tenure::bench::barriers {

struct table {
  tenure::vector<record*> records;
};

namespace {

// Truncation has nothing to do until three quarters of it are used.
constexpr std::uint64_t log_size = std::uint64_t{256} << 20;

class store_contender : public contender {
 public:
  store_contender(rvm::tracking_mechanism mechanism, rvm::write_barriers barriers, std::string setting)
      : mechanism_(mechanism), barriers_(barriers), setting_(std::move(setting)) {}

  std::string setting() const override { return setting_; }
  void create(const setup& how) override {
    mode_ = how.durable ? commit_mode::durable : commit_mode::lazy;
    store_options options;
    options.memory.log.size = options.memory.log.max_size = log_size;
    options.mechanism = mechanism_;
    options.barriers = barriers_;
    {
      store fresh(how.directory.string(), options);
      table& all = fresh.root<table>("records");
      fresh.transact([&] {
        all.records.reserve(how.records);
        for (std::uint32_t n = 0; n < how.records; ++n) all.records.push_back(fresh.make<record>());
      });
    }
    store_.emplace(how.directory.string(), options);
    records_ = store_->root<table>("records").records.data();
  }
  void transact(std::span<const update> updates) override {
    transaction tx = store_->begin();
    if (barriers_ == rvm::write_barriers::none) {
      for (const update& u : updates) records_[u.record]->words[u.word] = u.value;
    } else {
      for (const update& u : updates) change(records_[u.record]->words[u.word]) = u.value;
    }
    tx.commit(mode_);
  }
  void flush() override { store_->flush(); }
  std::uint64_t word(std::uint32_t record, std::uint32_t word) override { return records_[record]->words[word]; }

 private:
  const rvm::tracking_mechanism mechanism_;
  const rvm::write_barriers barriers_;
  const std::string setting_;
  commit_mode mode_ = commit_mode::lazy;
  std::optional<store> store_;
  record** records_ = nullptr;
};

class rvm_contender : public contender {
 public:
  std::string setting() const override { return "set_range of each word"; }
  void create(const setup& how) override {
    mode_ = how.durable ? rvm::commit_mode::flush : rvm::commit_mode::no_flush;
    rvm::options options;
    options.log.size = options.log.max_size = log_size;
    memory_.emplace((how.directory / "log").string(), options);
    region_ = memory_->map((how.directory / "segment").string(), {.create_length = how.records * sizeof(record)});
    records_ = reinterpret_cast<record*>(region_.data());
  }
  void transact(std::span<const update> updates) override {
    rvm::transaction tx = memory_->begin(rvm::restore_mode::no_restore);
    for (const update& u : updates) {
      std::uint64_t& word = records_[u.record].words[u.word];
      tx.set_range(&word, sizeof word);
      word = u.value;
    }
    tx.commit(mode_);
  }
  void flush() override { memory_->flush(); }
  std::uint64_t word(std::uint32_t record, std::uint32_t word) override { return records_[record].words[word]; }

 private:
  rvm::commit_mode mode_ = rvm::commit_mode::no_flush;
  std::optional<rvm::memory> memory_;
  rvm::region region_;
  record* records_ = nullptr;
};

std::unique_ptr<contender> make(rvm::tracking_mechanism mechanism, const char* setting) {
  return std::make_unique<store_contender>(mechanism, rvm::write_barriers::none, setting);
}
std::unique_ptr<contender> make(rvm::write_barriers barriers, const char* setting) {
  return std::make_unique<store_contender>(rvm::tracking_mechanism::choose, barriers, setting);
}

}  // namespace

std::unique_ptr<contender> make_recoverable_memory() { return std::make_unique<rvm_contender>(); }
std::unique_ptr<contender> make_store() { return make(rvm::tracking_mechanism::choose, "the library chooses"); }
std::unique_ptr<contender> make_store_traps() { return make(rvm::tracking_mechanism::traps, "each page is trapped"); }
std::unique_ptr<contender> make_store_hot() {
  return make(rvm::tracking_mechanism::hot, "what was written stays open");
}
std::unique_ptr<contender> make_store_notes() { return make(rvm::tracking_mechanism::scan, "the kernel's notes"); }
std::unique_ptr<contender> make_store_copies() {
  return make(rvm::tracking_mechanism::private_copies, "private copies are compared");
}
std::unique_ptr<contender> make_store_announced() {
  return make(rvm::write_barriers::announced, "change() of each word");
}
std::unique_ptr<contender> make_store_cards() {
  return make(rvm::write_barriers::cards, "change() of each word, cards of 64 bytes");
}
std::unique_ptr<contender> make_store_checking() {
  return make(rvm::write_barriers::checking, "change() of each word, all open pages compared");
}

}  // namespace tenure::bench::barriers
