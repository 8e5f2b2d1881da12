// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory runs out when an inner transaction begins or ends: it fails, nothing has changed, and the process goes on. The abort of the
// outermost one does not fail. A commit either fails, and nothing has changed, or is done.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tenure/tenure.hpp>

#include "support/expect_error.hpp"
#include "support/failing_allocations.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

namespace short_memory_types {

struct item {
  std::uint64_t number;
  tenure::string text;
};
struct large_item {
  char bytes[300'000];
};
struct wide_item {
  char bytes[20'000];
};
struct shelf {
  tenure::vector<item*> all;
  tenure::vector<large_item*> large;
  tenure::vector<wide_item*> wide;
};

}  // namespace short_memory_types
using namespace short_memory_types;

namespace {

using namespace tenure;
using namespace tenure::support;

// Each allocation fails in turn, or as many as there is time for.
long long next_after(long long allocations) {
  return allocations + static_cast<long long>(rvm::testing::scaled_stride());
}

class inner_in_short_memory : public reopened_store {
 protected:
  inner_in_short_memory() {
    how.tune.most_blocks = 4;
    how.tune.refill = 100;
    s().close();
    open();
    h = &s().root<shelf>("shelf");
    s().transact([&] { fill(1000); });
    s().transact([&] {
      for (std::size_t n = 0; n < 900; n += 3) s().destroy(std::exchange(h->all[n], nullptr));
    });
  }
  void fill(std::uint64_t count) {
    for (std::uint64_t n = 0; n < count; ++n) {
      auto* const each = s().make<item>();
      each->number = n;
      each->text = std::string(n % 300, 'x');
      h->all.push_back(each);
      if (n % 100 == 0) h->large.push_back(s().make<large_item>());
    }
  }
  struct contents {
    std::vector<std::uint64_t> numbers;
    std::size_t large;
    bool operator==(const contents&) const = default;
  };
  [[nodiscard]] contents now() const {
    contents is{{}, h->large.size()};
    for (const item* each : h->all) is.numbers.push_back(each != nullptr ? each->number + each->text.size() : 0);
    return is;
  }
  // Whether f() did not fail, with so many allocations before all fail, or `most` of them.
  template <class F>
  [[nodiscard]] bool succeeds_with(long long allocations, F&& f, long long most = 1'000'000'000) {
    succeeding = allocations;
    failing = most;
    bool is_done = true;
    try {
      f();
    } catch (const std::bad_alloc&) {
      is_done = false;
    }
    has_failed_any = failing != most;
    succeeding = -1;
    failing = 0;
    expect_invariants(s());
    return is_done;
  }
  bool has_failed_any = false;  // an allocation, when f() was called last
  shelf* h = nullptr;
};

}  // namespace

// The first transaction of an open store, where no list has any room yet. The next one waits for nobody.
TEST_F(inner_in_short_memory, nor_do_the_first_ones_keep_others_out) {
  long long failed = 0;
  for (bool is_done = false; !is_done; failed += is_done ? 0 : 1) {
    reopen();
    std::optional<transaction> first;
    is_done = succeeds_with(failed, [&] { first = s().begin(); });
    first.reset();
    s().transact([&] { s().root<shelf>("shelf").all.push_back(nullptr); });
  }
  EXPECT_GT(failed, 1);
  EXPECT_EQ(s().root<shelf>("shelf").all.size(), 1001U + static_cast<std::size_t>(failed));
}

TEST_F(inner_in_short_memory, fail_to_begin_and_to_end_without_a_change) {
  transaction outer = s().begin();
  fill(300);
  const contents before = now();
  long long failed_begins = 0, failed_aborts = 0;
  std::optional<transaction> in;
  while (!succeeds_with(failed_begins, [&] { in = s().begin(); })) {
    ++failed_begins;
    ASSERT_EQ(now(), before);
  }
  EXPECT_GT(failed_begins, 5);
  fill(500);
  const contents inside = now();
  while (!succeeds_with(failed_aborts, [&] { in->abort(); })) {
    ++failed_aborts;
    ASSERT_EQ(now(), inside);
  }
  EXPECT_GT(failed_aborts, 0);
  EXPECT_EQ(now(), before);
  fill(500);
  outer.commit();
  reopen();
}

// Blocks that cannot be given back at once are given back in the end.
TEST_F(inner_in_short_memory, that_cannot_be_undone_doom_the_outer_one_and_lose_no_space) {
  const contents before = now();
  for (const bool has_two : {false, true})
    for (long long allocations = 0; allocations < 60; ++allocations) {
      transaction outer = s().begin();
      fill(100);
      const contents outside = now();
      transaction first, second;
      first = s().begin();
      fill(200);
      if (has_two) second = s().begin();
      if (has_two) fill(200);
      EXPECT_TRUE(succeeds_with(allocations, [&] { first = {}; }));
      EXPECT_FALSE(second.is_open());
      if (now() == outside) {
        fill(10);
      } else {
        expect_error(errc::doomed, {path}, [&] { outer.commit(); });
      }
      outer.abort();
      expect_invariants(s());
      ASSERT_EQ(now(), before);
    }
}

using short_memory_of_a_store = inner_in_short_memory;

// More free runs of blocks than there is memory for are taken, and given back.
TEST_F(short_memory_of_a_store, aborts_give_everything_back_in_the_end) {
  s().transact([&] {
    h->large.clear();
    for (int n = 0; n < 100; ++n) h->large.push_back(s().make<large_item>());
  });
  s().transact([&] {
    for (std::size_t n = 0; n < 100; n += 2) s().destroy(std::exchange(h->large[n], nullptr));
  });
  const auto fill_holes = [&] {
    for (std::size_t n = 0; n < 100; n += 2) h->large[n] = s().make<large_item>();
  };
  std::uint64_t size = 0;
  for (long long allocations = 0; allocations < 40; ++allocations) {
    transaction outer = s().begin();
    fill_holes();
    ASSERT_TRUE(succeeds_with(allocations, [&] { outer.abort(); }));
    EXPECT_EQ(h->large[0], nullptr);
    if (allocations == 0) size = std::filesystem::file_size(path + "/main.db");
  }
  s().transact(fill_holes);
  EXPECT_EQ(std::filesystem::file_size(path + "/main.db"), size);
  reopen();
}

// One allocation fails, or several do. What cannot be given back then is given back in the end.
TEST_F(short_memory_of_a_store, commits_are_done_or_have_changed_nothing) {
  s().transact([&] {
    for (int n = 0; n < 800; ++n) h->wide.push_back(s().make<wide_item>());
  });
  std::size_t wide = 0;  // of two neighbours one is destroyed: each leaves a run of free blocks
  for (const long long most : {1LL, 3LL, 1'000'000'000LL}) {
    std::uint64_t failed = 0;
    has_failed_any = true;
    // Builds with assertions look at everything behind each commit, and need much more memory for that.
    for (long long allocations = 0; has_failed_any && allocations < 150; allocations = next_after(allocations)) {
      SCOPED_TRACE(std::to_string(allocations) + ", then " + std::to_string(most) + " fail");
      const contents before = now();
      transaction tx = s().begin();
      fill(20);
      for (std::size_t n = h->all.size() - 60; n < h->all.size() - 20; n += 2)
        if (h->all[n] != nullptr) s().destroy(std::exchange(h->all[n], nullptr));
      s().destroy(std::exchange(h->large[0], s().make<large_item>()));
      if (wide < h->wide.size()) s().destroy(std::exchange(h->wide[wide], nullptr));
      wide += 2;
      const contents inside = now();
      const bool is_done = succeeds_with(
          allocations, [&] { tx.commit(commit_mode::lazy); }, most);
      ASSERT_EQ(now(), inside);
      if (!is_done) {
        ASSERT_TRUE(tx.is_open());
        tx.abort();
      }
      ASSERT_EQ(now(), is_done ? inside : before);
      const auto wrong = s().verify();
      ASSERT_TRUE(wrong.empty()) << wrong[0];
      failed += is_done ? 0 : 1;
    }
    EXPECT_GT(failed, 10U / rvm::testing::scaled_stride());
    const contents last = now();
    reopen();
    h = &s().root<shelf>("shelf");
    EXPECT_EQ(now(), last);
  }
}

// Pages that had nothing but free space are used again, with what is transient beside it.
TEST_F(short_memory_of_a_store, commits_to_pages_that_are_used_again) {
  using containers = std::pair<tenure::map<long, tenure::string>, tenure::hash_map<long, tenure::vector<int>>>;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = 0; seed < rvm::testing::scaled(12); ++seed)
    for (long long allocations = 0; allocations < 10; ++allocations) {
      SCOPED_TRACE(std::to_string(seed) + ", allocation " + std::to_string(allocations));
      rvm::testing::random_source random(seed);
      std::filesystem::remove_all(path + "-new");
      how.create.home = next_home(how.create.reservation);
      store fresh(path + "-new", how);  // whose lists have no room yet
      auto& all = fresh.root<containers>("containers");
      auto& list = fresh.root<tenure::vector<tenure::string>>("list");
      const auto change = [&](std::uint64_t ops) {
        for (; ops != 0; --ops) {
          const auto key = static_cast<long>(random.below(60));
          const tenure::string text(std::string(random.below(300), 'a'));
          switch (random.below(6)) {
            case 0: all.first[key] = text; break;
            case 1: all.first.erase(key); break;
            case 2: all.second[key].push_back(static_cast<int>(ops)); break;
            case 3: all.second.erase(key); break;
            case 4: list.push_back(text); break;
            default:
              if (!list.empty()) list.erase(list.begin());
          }
        }
      };
      const auto text_of_all = [&] {
        std::string text;
        for (const auto& [key, value] : all.first) text += std::to_string(key) + std::string(std::string_view(value));
        for (long key = 0; key < 60; ++key)
          for (const int n : all.second.contains(key) ? all.second.at(key) : tenure::vector<int>())
            text += std::to_string(n);
        for (const tenure::string& each : list) text += std::to_string(each.size());
        return text;
      };
      fresh.transact([&] { change(30); });
      fresh.transact([&] {
        all.first.clear();
        all.second = {};
        list = {};
      });
      for (std::uint64_t n = 3 + random.below(6); n != 0; --n) fresh.transact([&] { change(1 + random.below(25)); });
      const std::string before = text_of_all();
      transaction tx = fresh.begin();
      change(10 + random.below(25));
      const bool is_done = succeeds_with(
          allocations, [&] { tx.commit(commit_mode::lazy); }, 1);
      if (is_done) continue;
      ++failed;
      tx.abort();
      ASSERT_EQ(text_of_all(), before);
      const auto wrong = fresh.verify();
      ASSERT_TRUE(wrong.empty()) << wrong[0];
    }
  EXPECT_GT(failed, 0U);
}

// Each in a new store, in which nothing is described yet.
TEST_F(short_memory_of_a_store, commits_that_describe_types) {
  std::uint64_t failed = 0;
  bool has_failed = true;
  for (long long allocations = 0; has_failed && allocations < 400; allocations = next_after(allocations)) {
    SCOPED_TRACE(allocations);
    std::filesystem::remove_all(path + "-new");
    how.create.home = next_home(how.create.reservation);
    std::optional<store> fresh(std::in_place, path + "-new", how);
    auto& all = fresh->root<shelf>("shelf");
    const auto add = [&](std::uint64_t number) {
      item* const made = fresh->make<item>();
      made->number = number;
      made->text = std::string(200, 'x');
      all.all.push_back(made);
    };
    transaction tx = fresh->begin();
    succeeding = allocations;
    failing = 1;
    try {
      add(1);
      tx.commit();
    } catch (const std::bad_alloc&) {
      succeeding = -1;
      ++failed;
      tx.abort();
    } catch (const error& e) {
      ASSERT_EQ(e.code(), errc::outcome_unknown);
      continue;
    }
    has_failed = failing == 0;
    succeeding = -1;
    fresh->transact([&] { add(2); });
    expect_sound(*fresh);
    fresh.reset();
    how.create.home = 0;
    fresh.emplace(path + "-new", how);
    expect_sound(*fresh);
    ASSERT_EQ(fresh->find_root<shelf>("shelf")->all.back()->number, 2U);
  }
  EXPECT_GT(failed, 5U / rvm::testing::scaled_stride());
}

// A large object has blocks for itself.
TEST_F(short_memory_of_a_store, objects_that_cannot_be_made_take_no_space) {
  for (long long allocations = 0, failed = 1; failed != 0; ++allocations) {
    transaction tx = s().begin();
    failed = succeeds_with(
                 allocations, [&] { h->large.push_back(s().make<large_item>()); }, 1)
                 ? 0
                 : 1;
    tx.abort();
    const auto wrong = s().verify();
    ASSERT_TRUE(wrong.empty()) << allocations << ": " << wrong[0];
  }
}

// What was to be written to the database stays in the log, however far a truncation has come.
TEST_F(short_memory_of_a_store, truncations_lose_nothing) {
  for (const long long most : {1LL, 3LL, 1'000'000'000LL})
    for (long long allocations = 0, failed = 1; failed != 0; allocations = next_after(allocations)) {
      SCOPED_TRACE(std::to_string(allocations) + ", then " + std::to_string(most) + " fail");
      const auto number = static_cast<std::uint64_t>(allocations * 10 + most % 10);
      s().transact([&] { h->all[1]->number = h->all[901]->number = number; });
      failed = 0;
      succeeding = allocations;
      failing = most;
      bool is_over = false;  // if the log could not be written
      try {
        s().trim();
      } catch (const std::bad_alloc&) {
        failed = 1;
      } catch (const error&) {
        is_over = true;
        failed = 1;
      }
      succeeding = -1;
      failing = 0;
      if (!is_over) {
        const auto wrong = s().verify();
        ASSERT_TRUE(wrong.empty()) << wrong[0];
      }
      // What trim() has taken, and could not give back for want of memory, is found again.
      if (is_over)
        EXPECT_THROW(s().close(), error);
      else
        s().close();
      opened.reset();
      open();
      expect_sound(s());
      h = &s().root<shelf>("shelf");
      ASSERT_EQ(h->all[1]->number, number);
      ASSERT_EQ(h->all[901]->number, number);
    }
}

// They throw what has failed, if anything, and the files are released.
TEST_F(short_memory_of_a_store, closing_and_opening_end_nothing_else) {
  for (const long long most : {1LL, 1'000'000'000LL})
    for (long long allocations = most % 2, failed = 1; failed != 0; allocations = next_after(allocations + 6)) {
      SCOPED_TRACE(std::to_string(allocations) + ", then " + std::to_string(most) + " fail");
      failed = 0;
      const auto in_short_memory = [&](auto&& f) {
        succeeding = allocations;
        failing = most;
        try {
          f();
        } catch (const std::exception&) {
        }
        failed += failing != most;
        succeeding = -1;
        failing = 0;
      };
      s().transact([&] { ++h->all[1]->number; });
      const std::uint64_t number = h->all[1]->number;
      in_short_memory([&] { s().close(); });
      opened.reset();
      in_short_memory([&] { open(); });
      if (opened == nullptr) open();
      h = &s().root<shelf>("shelf");
      ASSERT_EQ(h->all[1]->number, number);
    }
}

// A database that could not be made is in nobody's way, and can be made then.
TEST_F(short_memory_of_a_store, databases_that_cannot_be_made) {
  std::uint64_t failed = 0, reopened = 0;
  for (const long long most : {1LL, 1'000'000'000LL}) {
    std::uint64_t in_a_row = 0;
    // Builds with assertions need much more memory for these.
    for (long long allocations = 0; in_a_row < 2 && allocations < 1500; allocations = next_after(allocations + 16)) {
      const database_options as{.reservation = how.create.reservation, .home = next_home(how.create.reservation)};
      const std::string name = "db" + std::to_string(most == 1) + "_" + std::to_string(allocations);
      SCOPED_TRACE(name);
      succeeding = allocations;
      failing = most;
      bool is_made = false, is_over = false;
      try {
        s().create_database(name, as);
        is_made = true;
      } catch (const std::bad_alloc&) {
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::outcome_unknown) << e.what();
        is_over = true;
      }
      succeeding = -1;
      failing = 0;
      if (is_over) {  // the log could not be written
        ++reopened;
        EXPECT_THROW(s().close(), error);
        opened.reset();
        open();
        h = &s().root<shelf>("shelf");
      } else if (!is_made) {
        s().transact([&] { ++h->all[1]->number; });
        s().create_database(name, as);
      }
      failed += is_made ? 0 : 1;
      in_a_row = is_made ? in_a_row + 1 : 0;
    }
    reopen();
    h = &s().root<shelf>("shelf");
  }
  EXPECT_GT(failed, 5U / rvm::testing::scaled_stride());
}

// The transaction goes on after an object that could not be made.
TEST_F(short_memory_of_a_store, transactions_go_on_after_what_cannot_be_made) {
  std::uint64_t failed = 0, in_a_row = 0;
  for (long long allocations = 0; in_a_row < 3; allocations = next_after(allocations)) {
    SCOPED_TRACE("allocation " + std::to_string(allocations));
    transaction tx = s().begin();
    for (std::size_t n = static_cast<std::size_t>(allocations) % 50; n < h->all.size(); n += 50)
      if (h->all[n] != nullptr) s().destroy(std::exchange(h->all[n], nullptr));
    const bool is_done = succeeds_with(
        allocations, [&] { fill(150); }, 1);
    fill(150);
    if (allocations % 3 == 0)
      tx.abort();
    else
      tx.commit(commit_mode::lazy);
    const auto wrong = s().verify();
    ASSERT_TRUE(wrong.empty()) << wrong[0];
    failed += is_done ? 0 : 1;
    in_a_row = is_done ? in_a_row + 1 : 0;
  }
  EXPECT_GT(failed, 10U / rvm::testing::scaled_stride());
  const contents last = now();
  reopen();
  h = &s().root<shelf>("shelf");
  EXPECT_EQ(now(), last);
}

// Another thread is not kept out.
TEST_F(short_memory_of_a_store, transactions_that_cannot_begin_have_not_begun) {
  std::uint64_t failed = 0, in_a_row = 0;
  for (long long allocations = 0; in_a_row < 30; allocations = (allocations + 1) % 20) {
    std::thread([&] {
      s().transact([&] {
        fill(20);
        s().destroy(std::exchange(h->all[h->all.size() - 7], nullptr));
      });
    }).join();
    std::optional<transaction> tx;
    const bool is_done = succeeds_with(
        allocations, [&] { tx = s().begin(); }, 1);
    EXPECT_EQ(tx.has_value(), is_done);
    if (is_done) tx->abort();
    failed += is_done ? 0 : 1;
    in_a_row = is_done ? in_a_row + 1 : 0;
    if (failed > 200) break;
  }
  EXPECT_GT(failed, 0U);
}
