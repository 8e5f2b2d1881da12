// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// All short sequences of operations, each with a crash after every operation of the disk in its last step (those before
// belong to shorter sequences).
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "support/model.hpp"

namespace tenure::rvm::testing {
namespace {

enum class op {
  begin,
  write,
  abort,
  commit,
  commit_lazily,
  flush,
  truncate,
  truncate_incrementally,
  unmap_and_map,
  reopen
};
constexpr op all_ops[] = {op::begin,         op::write, op::abort,    op::commit,
                          op::commit_lazily, op::flush, op::truncate, op::truncate_incrementally,
                          op::unmap_and_map, op::reopen};
constexpr const char* names[] = {"begin",         "write", "abort",    "commit",
                                 "commit_lazily", "flush", "truncate", "truncate_incrementally",
                                 "unmap_and_map", "reopen"};

using sequence = std::vector<op>;

// One transaction at a time, over both segments, so that a mixture would show.
class player {
 public:
  player(sim::disk& on, const layout& of, model& keeps) : disk_(on), layout_(of), model_(keeps) { open(); }
  ~player() {
    tx_.reset();
    regions_.clear();
  }
  player(const player&) = delete;
  player& operator=(const player&) = delete;

  [[nodiscard]] bool can(op what) const {
    switch (what) {
      case op::begin: return !tx_;
      case op::write: return tx_ && writes_ < 2;
      case op::abort:
      case op::commit:
      case op::commit_lazily: return tx_.has_value();
      case op::reopen: return !tx_;
      case op::unmap_and_map: return !tx_ || writes_ == 0;
      default: return true;
    }
  }

  void play(op what) {
    switch (what) {
      case op::begin:
        tx_.emplace(memory_->begin());
        writes_ = 0;
        before_ = model_.memory;
        break;
      case op::write: write(); break;
      case op::abort:
        tx_->abort();
        model_.memory = before_;
        end();
        break;
      case op::commit:
      case op::commit_lazily: {
        const bool lazy = what == op::commit_lazily;
        model_.committing(ranges_);
        const auto promise = tx_->commit(lazy ? commit_mode::no_flush : commit_mode::flush);
        model_.committed(promise);
        if (!lazy) model_.acknowledge();
        end();
        break;
      }
      case op::flush:
        memory_->flush();
        model_.acknowledge();
        break;
      case op::truncate:
        memory_->truncate();
        model_.acknowledge();
        break;
      case op::truncate_incrementally: (void)memory_->truncate_incrementally(1); break;
      case op::unmap_and_map:
        regions_[turn_ % 2].unmap();
        model_.acknowledge();
        map(turn_ % 2);
        break;
      case op::reopen:
        memory_->close();
        model_.acknowledge();
        regions_.clear();
        memory_.reset();
        open();
        break;
    }
    ++turn_;
    for (std::size_t s = 0; s < regions_.size(); ++s)
      if (std::memcmp(regions_[s].data(), model_.memory.data() + layout_.start(s), regions_[s].size()) != 0)
        throw std::logic_error("memory differs from the model");
  }

 private:
  void open() {
    memory_.emplace(layout_.log_path, layout_.how(disk_));
    model_.opened();
    regions_.resize(2);
    map(0);
    map(1);
  }
  void map(std::size_t s) {
    const auto& segment = layout_.segments[s];
    regions_[s] = memory_->map(segment.path, {.create_length = segment.raw ? 0 : segment.length, .raw = segment.raw});
  }
  // Words of a page that others have changed before, and of one that is new.
  void write() {
    for (std::size_t s = 0; s < 2; ++s) {
      const std::uint64_t at = (turn_ % 3) * 4096 + 4092;  // lies in two pages
      const byte_range r{layout_.start(s) + at, 8};
      std::uint64_t value = 0x0101010101010101u * (turn_ + 1 + s * 16);
      tx_->modify(regions_[s].at<std::uint64_t>(at - 4092 + 4088), value);
      std::memcpy(model_.memory.data() + layout_.start(s) + at - 4, &value, 8);
      ranges_.push_back({r.at - 4, 8});
      value = ~value;
      tx_->modify(regions_[s].data() + at, &value, 8);  // overlaps the first
      std::memcpy(model_.memory.data() + r.at, &value, 8);
      ranges_.push_back(r);
    }
    ++writes_;
  }
  void end() {
    tx_.reset();
    ranges_.clear();
  }

  sim::disk& disk_;
  const layout& layout_;
  model& model_;
  std::optional<memory> memory_;
  std::vector<region> regions_;
  std::optional<transaction> tx_;
  image before_;
  std::vector<byte_range> ranges_;
  std::uint64_t writes_ = 0, turn_ = 0;
};

struct tally {
  std::uint64_t sequences = 0, crashes = 0;
};

std::string text_of(const sequence& ops) {
  std::string text;
  for (const op o : ops) text += std::string(text.empty() ? "" : ", ") + names[static_cast<int>(o)];
  return text;
}

// Plays it, with crashes in the last step. Returns what is wrong; `possible` is false if some step cannot be there.
std::string crash_in_last_step(const sim::disk& prepared, const layout& of, const sequence& ops, bool& possible,
                               tally& counts) {
  const auto disk = prepared.crash(1, sim::policy::keep_all);
  model expected(of);
  std::string wrong;
  try {
    player user(*disk, of, expected);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      possible = user.can(ops[i]);
      if (!possible) return "";
      if (i + 1 == ops.size())
        disk->on_operation([&](const sim::trace_entry&) {
          for (const auto what : {sim::policy::drop_all, sim::policy::keep_all, sim::policy::random}) {
            if (!wrong.empty()) return;
            ++counts.crashes;
            wrong = judge_crash(*disk, of, expected, counts.crashes, what);
          }
        });
      user.play(ops[i]);
    }
    // After the step, too: what it has promised must hold although it wrote nothing.
    disk->on_operation({});
    if (wrong.empty()) wrong = judge_crash(*disk, of, expected, ++counts.crashes, sim::policy::drop_all);
    disk->power_off();
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  ++counts.sequences;
  return wrong;
}

void explore(const sim::disk& prepared, const layout& of, const sequence& ops, std::size_t depth, tally& counts) {
  if (depth == 0) return;
  for (const op next : all_ops) {
    sequence longer = ops;
    longer.push_back(next);
    bool possible = false;
    const auto wrong = crash_in_last_step(prepared, of, longer, possible, counts);
    ASSERT_EQ(wrong, "") << text_of(longer);
    if (!possible) continue;
    ASSERT_NO_FATAL_FAILURE(explore(prepared, of, longer, depth - 1, counts));
  }
}

class exhaustive : public ::testing::Test {
 protected:
  void run(const sequence& prologue, std::size_t depth) {
    layout where = small_layout();
    where.segments[0].length = where.segments[1].length = 16 << 10;
    where.tune.truncation_threshold = 2;
    sim::disk disk;
    install_raw_segments(disk, where);
    model empty(where);
    (void)recovered_image(disk, where);  // makes the files
    tally counts;
    explore(disk, where, prologue, depth, counts);
    std::cout << "  sequences: " << counts.sequences << ", crashes: " << counts.crashes << '\n';
    RecordProperty("sequences", std::to_string(counts.sequences));
    RecordProperty("crashes", std::to_string(counts.crashes));
    EXPECT_GT(counts.sequences, 10U);
    EXPECT_GT(counts.crashes, 10U);
  }
  // One step more with a larger scale, fewer under sanitizers.
  static std::size_t depth(std::size_t usual) {
    return test_scale() >= 10 ? usual + 1 : test_scale() < 0.5 ? usual - 1 : usual;
  }
};

TEST_F(exhaustive, from_an_empty_log) { run({}, depth(4)); }
TEST_F(exhaustive, with_a_transaction_open) { run({op::begin, op::write}, depth(4)); }
TEST_F(exhaustive, after_a_commit) { run({op::begin, op::write, op::commit, op::begin, op::write}, depth(3)); }
TEST_F(exhaustive, after_a_lazy_commit) {
  run({op::begin, op::write, op::commit_lazily, op::begin, op::write}, depth(3));
}

}  // namespace
}  // namespace tenure::rvm::testing
