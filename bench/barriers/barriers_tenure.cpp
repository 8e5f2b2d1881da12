// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stores with every means of finding writes, and recoverable memory, where set_range declares them. The records are objects
// of their own, made one after the other.
#include <optional>
#include <string>
#include <utility>

#include <tenure/barriers.hpp>
#include <tenure/rvm.hpp>
#include <tenure/tenure.hpp>

#include "barriers/contender.hpp"
#include "barriers/updates.hpp"
#include "worlds/ways.hpp"

namespace tenure::bench::barriers {

struct table {
  tenure::vector<record*> records;
};

namespace {

// Truncation has nothing to do until three quarters of it are used.
constexpr std::uint64_t log_size = std::uint64_t{256} << 20;

// Who makes the updates, and announces them or not.
using maker = void (*)(record* const* records, std::span<const update> updates);
void make_announced(record* const* records, std::span<const update> updates) {
  for (const update& u : updates) change(records[u.record]->words[u.word]) = u.value;
}

class store_contender : public contender {
 public:
  store_contender(const way& of, maker by, std::string setting) : of_(of), make_(by), setting_(std::move(setting)) {}

  std::string setting() const override { return setting_; }
  void create(const setup& how) override {
    mode_ = how.durable ? commit_mode::durable : commit_mode::lazy;
    store_options options;
    options.memory.log.size = options.memory.log.max_size = log_size;
    options = of_.applied_to(options);
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
    make_(records_, updates);
    tx.commit(mode_);
  }
  void flush() override { store_->flush(); }
  std::uint64_t word(std::uint32_t record, std::uint32_t word) override { return records_[record]->words[word]; }

 private:
  const way of_;
  const maker make_;
  const std::string setting_;
  commit_mode mode_ = commit_mode::lazy;
  std::optional<store> store_;
  record** records_ = nullptr;
};

class rvm_contender : public contender {
 public:
  explicit rvm_contender(rvm::write_barriers barriers) : barriers_(barriers) {}

  std::string setting() const override {
    return barriers_ == rvm::write_barriers::none ? "set_range of each word"
                                                  : "change() of each word, which declares it";
  }
  void create(const setup& how) override {
    mode_ = how.durable ? rvm::commit_mode::flush : rvm::commit_mode::no_flush;
    rvm::options options;
    options.log.size = options.log.max_size = log_size;
    memory_.emplace((how.directory / "log").string(), options);
    region_ = memory_->map((how.directory / "segment").string(),
                           {.create_length = how.records * sizeof(record), .barriers = barriers_});
    records_ = reinterpret_cast<record*>(region_.data());
  }
  void transact(std::span<const update> updates) override {
    rvm::transaction tx = memory_->begin(rvm::restore_mode::no_restore);
    if (barriers_ != rvm::write_barriers::none) {
      for (const update& u : updates) change(records_[u.record].words[u.word]) = u.value;
    } else {
      for (const update& u : updates) {
        std::uint64_t& word = records_[u.record].words[u.word];
        tx.set_range(&word, sizeof word);
        word = u.value;
      }
    }
    tx.commit(mode_);
  }
  void flush() override { memory_->flush(); }
  std::uint64_t word(std::uint32_t record, std::uint32_t word) override { return records_[record].words[word]; }

 private:
  const rvm::write_barriers barriers_;
  rvm::commit_mode mode_ = rvm::commit_mode::no_flush;
  std::optional<rvm::memory> memory_;
  rvm::region region_;
  record* records_ = nullptr;
};

}  // namespace

std::vector<contender_kind> tenure_contenders() {
  std::vector<contender_kind> all;
  constexpr bool laboratory = true;
  const auto memory = [&](const char* name, rvm::write_barriers barriers, bool in_laboratory = false) {
    all.push_back({name, [barriers] { return std::make_unique<rvm_contender>(barriers); }, in_laboratory});
  };
  const auto store = [&](const std::string& name, const way& of, bool in_laboratory = false, maker by = nullptr,
                         const std::string& how = "") {
    if (by == nullptr) by = of.barriers == rvm::write_barriers::none ? make_bare : make_announced;
    const std::string setting = how + of.setting;
    all.push_back(
        {name, [of, by, setting] { return std::make_unique<store_contender>(of, by, setting); }, in_laboratory});
  };
  memory("tenure-rvm", rvm::write_barriers::none);
  memory("tenure-rvm-announced", rvm::write_barriers::announced, laboratory);
  store("tenure", ways::chosen);
  store("tenure-traps", ways::traps);
  store("tenure-hot", ways::hot);
  store("tenure-notes", ways::notes);
  store("tenure-copies", ways::copies);
  store("tenure-announced", ways::announced);
  store("tenure-cards", ways::cards_64);
  store("tenure-checking", ways::checking);
  const auto of_sizes = [&](const std::string& name, maker by, const std::string& how) {
    store(name + "-16", ways::cards_16, laboratory, by, how);
    store(name + "-256", ways::cards_256, laboratory, by, how);
    store(name + "-1024", ways::cards_1024, laboratory, by, how);
    store(name + "-4096", ways::cards_4096, laboratory, by, how);
  };
  of_sizes("tenure-cards", make_announced, "");
  for (const auto& [form, by] : {std::pair<const char*, maker>("inline", make_inline), {"outlined", make_outlined}}) {
    const std::string name = std::string("tenure-") + form, how = std::string("compiled in, ") + form + "; ";
    store(name, ways::announced, laboratory, by, how);
    store(name + "-cards", ways::cards_64, laboratory, by, how);
    of_sizes(name + "-cards", by, how);
  }
  return all;
}

}  // namespace tenure::bench::barriers
