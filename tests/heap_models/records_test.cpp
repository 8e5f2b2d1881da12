// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A table of records with indexes, as programs keep them: inserted and deleted many at a time, replaced, aborted, closed and
// opened again, with transient strings beside them, on a disk that loses power in between. After every opening the table is
// exactly that of one commit, not older than the last durable one.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "heap_models/drawn_options.hpp"
#include "sim/disk.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace records_test_types {

struct record {
  std::uint64_t id, group;
  record* next;  // the one that was inserted before, as long as it is there
  tenure::string text;
  transient<std::uint64_t> scratch;
};
struct by_id {
  bool operator()(const record* a, const record* b) const { return a->id < b->id; }
};
struct table {
  std::uint64_t commits;
  tenure::hash_map<std::uint64_t, record*> all;
  tenure::ordered_index<std::uint64_t, record*> by_group;
  tenure::set<record*, by_id> in_order;
  tenure::map<record*, std::uint64_t, by_id> groups;
  tenure::map<tenure::string, record*> by_text;
  tenure::vector<record*> row;
};

}  // namespace records_test_types
using namespace records_test_types;

namespace {

using rvm::testing::random_source;
using rvm::testing::scaled;

struct model_record {
  std::uint64_t group = 0, next = 0, text = 0;  // text: its fingerprint
  bool operator==(const model_record&) const = default;
};
using model_table = std::map<std::uint64_t, model_record>;

std::uint64_t fingerprint(std::string_view text) { return std::hash<std::string_view>{}(text); }

class record_program {
 public:
  explicit record_program(std::uint64_t seed)
      : random_(seed), disk_(std::make_unique<sim::disk>()), how_(drawn_options(random_, *disk_, limits_)) {
    how_.mechanism = mechanisms[random_.below(mechanisms.size())];
    at_once_ = one_of<std::uint64_t>(random_, {3, 30, 150});
    groups_ = one_of<std::uint64_t>(random_, {1, 8, 1000});
    longest_ = one_of<std::uint64_t>(random_, {40, 300, 3000, 30000});
    most_ = std::min<std::uint64_t>(1500, (2 << 20) / longest_);
    operations_ = random_.next() | random_.next();
    with_crashes_ = random_.one_in(2);
    next_home_ = support::next_home(1 << 28);
    history_[0] = {};
  }
  [[nodiscard]] std::string configuration() const {
    return text_of(how_) + ", at once " + std::to_string(at_once_) + ", groups " + std::to_string(groups_) +
           ", longest " + std::to_string(longest_) + ", operations " + std::to_string(operations_ & 0xff) +
           (with_crashes_ ? ", with crashes" : "");
  }

  void run(std::uint64_t lives) {
    for (std::uint64_t n = 0; n < lives && !::testing::Test::HasFailure(); ++n) {
      SCOPED_TRACE("life " + std::to_string(n));
      if (with_crashes_ && n + 1 != lives && random_.one_in(2))
        live_until_a_crash();
      else
        live(1 + random_.below(12));
    }
  }

 private:
  // --- Lives of the store ---

  void live_until_a_crash() {
    disk_->crash_at(disk_->operations() + 1 + random_.below(400));
    try {
      live(1000);
    } catch (const sim::power_failure&) {
    }
    floating_.clear();
    const auto what =
        one_of(random_, {sim::policy::keep_all, sim::policy::keep_all, sim::policy::drop_all, sim::policy::random});
    disk_ = disk_->crash(random_.next(), what);
  }

  void live(std::uint64_t transactions) {
    how_.memory.disk = disk_.get();
    store s("/store", how_);
    store_ = &s;
    database far = s.find_database("far") ? *s.find_database("far")
                                          : s.create_database("far", {.reservation = 1 << 28, .home = next_home_});
    table_ = &s.root<table>("table");
    expect_a_committed_state();
    while (transactions-- != 0 && !::testing::Test::HasFailure()) {
      outside();
      transact(far);
    }
    floating_.clear();
    if (::testing::Test::HasFailure()) return;
    if (random_.one_in(2)) {
      s.close();
      acknowledged_ = table_commits_;
    }
  }

  void expect_a_committed_state() {
    expect_sound(*store_);
    const auto found = history_.find(table_->commits);
    ASSERT_NE(found, history_.end()) << "commit " << table_->commits << " was never made";
    EXPECT_GE(table_->commits, acknowledged_);
    now_ = found->second;
    // Later ones never were, earlier ones will not come back.
    table_commits_ = acknowledged_ = table_->commits;
    history_.erase(history_.upper_bound(table_commits_), history_.end());
    history_.erase(history_.begin(), history_.find(table_commits_));
    compare();
  }

  // --- Transactions ---

  // What needs no transaction: strings and containers of the program's own, with memory of the store.
  void outside() {
    if (!has(6)) return;
    for (std::uint64_t n = random_.below(20); n != 0; --n) {
      if (floating_.size() > 20 || (!floating_.empty() && random_.one_in(2)))
        floating_.erase(floating_.begin() + static_cast<std::ptrdiff_t>(random_.below(floating_.size())));
      else
        floating_.emplace_back(tenure::string(text()));
    }
    expect_invariants_before_the_crash();
  }

  void transact(database& far) {
    const model_table before = now_;
    older_ = floating_.size();
    transaction tx = store_->begin();
    for (std::uint64_t steps = 1 + random_.below(5); steps != 0; --steps) {
      step(far);
      expect_invariants_before_the_crash();
    }
    if (has(7) && random_.one_in(4)) {
      floating_.resize(older_);  // the memory of the others goes
      tx.abort();
      now_ = before;
      compare();
      return;
    }
    // An attempt that is refused changes nothing.
    if (!now_.empty() && random_.one_in(12)) {
      record local{};
      record& at = any();
      record* const was = std::exchange(at.next, &local);
      EXPECT_THROW(tx.commit(), error);
      at.next = was;
    }
    table_->commits = ++table_commits_;
    history_[table_commits_] = now_;
    const bool durable = random_.one_in(2);
    tx.commit(durable ? commit_mode::durable : commit_mode::lazy);
    if (durable) acknowledged_ = table_commits_;
    if (random_.one_in(4)) compare();
    if (random_.one_in(8)) expect_sound_before_the_crash();
  }

  // A thread of the library may meet the crash before this one does, and stop in the middle of its work.
  void expect_invariants_before_the_crash() const {
    if (!disk_->is_off()) expect_invariants(*store_);
  }
  void expect_sound_before_the_crash() const {
    if (!disk_->is_off()) expect_sound(*store_);
  }

  void step(database& far) {
    switch (random_.below(6)) {
      case 0:
      case 1:
        for (std::uint64_t n = 1 + random_.below(at_once_); n != 0 && now_.size() < most_; --n)
          insert(has(0) && random_.one_in(5) ? &far : nullptr);
        break;
      case 2:
        if (has(1)) remove_some(random_.below(at_once_), random_.one_in(2));
        break;
      case 3:  // most of them, and as many again
        if (has(2)) {
          const std::uint64_t gone = now_.size() * 7 / 8;
          remove_some(gone, random_.one_in(2));
          for (std::uint64_t n = 0; n < gone; ++n) insert(nullptr);
        }
        break;
      case 4:
        if (has(3) && !now_.empty()) change();
        break;
      case 5:
        if (has(4)) (void)store_->make<record>();  // garbage
        if (has(5)) floating_.emplace_back(tenure::string(text()));
        break;
    }
  }

  void insert(database* in) {
    record* const made = in != nullptr ? in->make<record>() : store_->make<record>();
    made->id = ++ids_;
    made->group = random_.below(groups_);
    if (older_ != 0 && random_.one_in(4)) {  // what was made before the transaction becomes persistent
      made->text = std::move(floating_.front());
      floating_.erase(floating_.begin());
      --older_;
    } else {
      made->text = text();
    }
    made->scratch = random_.next();
    if (!now_.empty() && random_.one_in(2)) made->next = &any();
    add(*made);
    now_[made->id] = {made->group, made->next == nullptr ? 0 : made->next->id, fingerprint(made->text)};
  }
  void add(record& r) {
    table_->all[r.id] = &r;
    table_->by_group.insert(r.group, &r);
    table_->in_order.insert(&r);
    table_->groups[&r] = r.group;
    table_->by_text[std::string(r.text) + std::to_string(r.id)] = &r;
    table_->row.push_back(&r);
  }

  // Out of every index, and out of what refers to it; then it is destroyed, at once or all of them in the end.
  void remove_some(std::uint64_t count, bool in_the_end) {
    std::vector<record*> gone;
    for (; count != 0 && !now_.empty(); --count) {
      record& r = any();
      const auto id = r.id;
      table_->all.erase(id);
      EXPECT_TRUE(table_->by_group.erase(r.group, &r));
      EXPECT_EQ(table_->in_order.erase(&r), 1u);
      EXPECT_EQ(table_->groups.erase(&r), 1u);
      EXPECT_EQ(table_->by_text.erase(std::string(r.text) + std::to_string(id)), 1u);
      table_->row.erase(std::ranges::find(table_->row, &r));
      now_.erase(id);
      gone.push_back(&r);
    }
    for (record* other : table_->row)
      if (other->next != nullptr && !now_.contains(other->next->id)) {
        other->next = nullptr;
        now_[other->id].next = 0;
      }
    if (in_the_end) std::ranges::reverse(gone);
    for (record* r : gone) store_->destroy(r);
  }

  void change() {
    record& r = any();
    EXPECT_EQ(table_->by_text.erase(std::string(r.text) + std::to_string(r.id)), 1u);
    r.text = text();
    table_->by_text[std::string(r.text) + std::to_string(r.id)] = &r;
    EXPECT_TRUE(table_->by_group.erase(r.group, &r));
    r.group = random_.below(groups_);
    table_->by_group.insert(r.group, &r);
    table_->groups[&r] = r.group;
    now_[r.id].group = r.group;
    now_[r.id].text = fingerprint(r.text);
  }

  record& any() { return *table_->row[random_.below(table_->row.size())]; }
  std::string text() { return std::string(random_.below(longest_), static_cast<char>('a' + random_.below(26))); }
  [[nodiscard]] bool has(int operation) const { return (operations_ >> operation & 1) != 0; }

  void compare() {
    ASSERT_EQ(table_->row.size(), now_.size());
    ASSERT_EQ(table_->all.size(), now_.size());
    ASSERT_EQ(table_->by_group.size(), now_.size());
    ASSERT_EQ(table_->in_order.size(), now_.size());
    ASSERT_EQ(table_->groups.size(), now_.size());
    ASSERT_EQ(table_->by_text.size(), now_.size());
    auto expected = now_.begin();
    for (const record* r : table_->in_order) {
      const auto& [id, m] = *expected++;
      ASSERT_EQ(r->id, id);
      ASSERT_EQ(r->group, m.group);
      ASSERT_EQ(r->next == nullptr ? 0 : r->next->id, m.next);
      ASSERT_EQ(fingerprint(r->text), m.text) << "record " << id;
      ASSERT_EQ(table_->all.at(id), r);
      ASSERT_EQ(table_->groups.at(const_cast<record*>(r)), m.group);
    }
    table_->by_group.check();
    table_->in_order.check();
    table_->groups.check();
    table_->by_text.check();
    expect_sound_before_the_crash();
    for (const tenure::string& t : floating_) ASSERT_TRUE(std::ranges::all_of(t, [&](char c) { return c == t[0]; }));
  }

  random_source random_;
  std::unique_ptr<sim::disk> disk_;
  rvm::thresholds limits_;
  store_options how_;
  std::uint64_t at_once_ = 1, groups_ = 1, longest_ = 1, most_ = 0, operations_ = 0, next_home_ = 0;
  bool with_crashes_ = false;
  store* store_ = nullptr;
  table* table_ = nullptr;
  model_table now_;
  std::map<std::uint64_t, model_table> history_;  // by commit, from the last durable one on
  std::uint64_t table_commits_ = 0, acknowledged_ = 0, ids_ = 0;
  std::vector<tenure::string> floating_;
  std::size_t older_ = 0;  // of these, those that were there before the transaction; they come first
};

}  // namespace

TEST(record_model, lives_keep_every_invariant) {
  const std::uint64_t seeds = scaled(20);
  for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
    record_program program(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + program.configuration());
    try {
      program.run(12);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
}
