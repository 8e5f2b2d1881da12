// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory of containers that are not in the store, which programs and their threads make and free all the time.
#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "support/model.hpp"
#include "support/test_store.hpp"

using namespace tenure;
using namespace tenure::support;

namespace transient_memory_test_types {

struct cell {
  std::uint64_t number;
  tenure::string text;
};
struct cells {
  tenure::vector<cell*> all;
};

}  // namespace transient_memory_test_types
using namespace transient_memory_test_types;

class transient_memory : public reopened_store {};

TEST_F(transient_memory, is_used_again) {
  const auto length = [&] { return std::filesystem::file_size(std::filesystem::path(path) / "main.db"); };
  std::deque<tenure::string> queue;
  const auto pass = [&] {
    for (int n = 0; n < 4000; ++n) {
      queue.emplace_back(std::string(static_cast<std::size_t>(40 + n % 1000), 'x'));
      if (queue.size() > 100) queue.pop_front();
    }
  };
  pass();
  const auto before = length();
  for (int n = 0; n < 20; ++n) pass();
  EXPECT_EQ(length(), before);
  for (const tenure::string& t : queue) EXPECT_TRUE(std::ranges::all_of(t, [](char c) { return c == 'x'; }));
}

// Threads make and free strings, short and longer than a block, while another commits and aborts. Nobody takes what they leave
// behind on pages for a change or a stray write.
TEST_F(transient_memory, of_several_threads_while_another_commits) {
  for (const bool strict : {false, true}) {
    s().close();
    how.strict_tracking = strict;
    open();
    cells& all = s().root<cells>("cells");
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        rvm::testing::random_source random(t);
        std::vector<tenure::string> kept(20);
        while (!done) {
          const auto fill = static_cast<char>('a' + random.below(26));
          auto& one = kept[random.below(kept.size())];
          ASSERT_TRUE(std::ranges::all_of(one, [&](char c) { return c == one[0]; }));
          one = tenure::string(std::string(random.below(random.one_in(8) ? 60'000 : 300), fill));
        }
      });
    rvm::testing::random_source random(9);
    const std::uint64_t rounds = rvm::testing::scaled(400);
    try {
      for (std::uint64_t round = 0; round < rounds; ++round) {
        transaction tx = s().begin();
        for (std::uint64_t n = random.below(6); n != 0; --n) {
          if (all.all.size() > 60 || (!all.all.empty() && random.one_in(2))) {
            s().destroy(all.all.back());
            all.all.pop_back();
          } else {
            all.all.push_back(s().make<cell>());
            all.all.back()->text = std::string(random.below(3000), 'x');
          }
        }
        if (random.one_in(4))
          tx.abort();
        else
          tx.commit(commit_mode::lazy);
      }
    } catch (const error& e) {
      ADD_FAILURE() << e.what();
    }
    done = true;
    for (auto& t : threads) t.join();
    expect_sound(s());
  }
}

// Strings that are made and freed between transactions lie beside persistent objects, or where some have been: what they leave
// there is no stray write.
TEST_F(transient_memory, beside_persistent_objects_and_where_some_have_been) {
  struct variant {
    rvm::tracking_mechanism mechanism;
    bool strict;
    std::size_t kept;
  };
  std::vector<variant> variants;
  for (const auto mechanism :
       {rvm::tracking_mechanism::choose, rvm::tracking_mechanism::traps, rvm::tracking_mechanism::hot,
        rvm::tracking_mechanism::scan, rvm::tracking_mechanism::private_copies})
    for (const bool strict : {false, true})
      for (const std::size_t kept : {std::size_t{10}, std::size_t{1}})  // a tenth of them; none
        variants.push_back({mechanism, strict, kept});
  for (const variant& v : variants) {
    SCOPED_TRACE("mechanism " + std::to_string(static_cast<int>(v.mechanism)) + ", strict " + std::to_string(v.strict) +
                 ", kept " + std::to_string(v.kept));
    s().close();
    how.mechanism = v.mechanism;
    how.strict_tracking = v.strict;
    how.tune.refill = 100;
    open();
    cells& all = s().root<cells>("cells");
    const auto new_strings = [](int count, char fill) {
      std::vector<tenure::string> made;
      for (int n = 0; n < count; ++n) made.emplace_back(std::string(200 + static_cast<std::size_t>(n) % 50, fill));
      return made;
    };
    for (std::uint64_t round = 0; round < 30; ++round) {
      const auto fill = static_cast<char>('a' + round % 26);
      {
        auto strings = new_strings(40, fill);
        s().transact([&] {  // some become persistent
          for (std::size_t n = 0; n < strings.size(); ++n)
            if (n % v.kept == 0) {
              all.all.push_back(s().make<cell>());
              all.all.back()->text = std::move(strings[n]);
            }
        });
      }
      if (v.kept == 1)
        s().transact([&] {
          for (cell* const each : all.all) {
            each->text[0] = '?';
            s().destroy(each);
          }
          all.all.clear();
        });
      for (int n = 0; n < 4; ++n) (void)new_strings(60, static_cast<char>(fill + 1));
      EXPECT_NO_THROW(s().transact([&] {
        s().root<cell>("other").number = round;
        for (cell* const each : all.all) each->text[1] = static_cast<char>('0' + round % 10);
      }));
      (void)new_strings(150, static_cast<char>(fill + 2));
      EXPECT_NO_THROW(s().transact([&] { s().root<cell>("other").number = round + 1; }));
    }
    s().transact([&] {
      for (cell* const each : s().root<cells>("cells").all) s().destroy(each);
      s().root<cells>("cells").all.clear();
    });
    expect_sound(s());
  }
}

// Objects of several blocks, too, that were made before the transaction in which they become reachable.
TEST_F(transient_memory, becomes_persistent) {
  for (const std::size_t length : {std::size_t{10}, std::size_t{40'000}, std::size_t{300'000}}) {
    SCOPED_TRACE(length);
    auto* const made = s().make<cell>();
    made->text = tenure::string(std::string(length, 'x'));
    cells& all = s().root<cells>("cells");
    s().transact([&] { all.all.push_back(made); });
    EXPECT_TRUE(s().is_persistent(made));
    EXPECT_TRUE(s().is_persistent(made->text.data()));
    expect_sound(s());
    s().transact([&] { std::swap(s().root<cell>("other").text, made->text); });
    expect_sound(s());
    s().transact([&] {
      s().destroy(all.all.back());
      all.all.pop_back();
    });
    expect_sound(s());
  }
}

TEST_F(transient_memory, in_a_store_that_is_only_read) {
  s().transact([&] {
    cells& all = s().root<cells>("cells");
    all.all.push_back(s().make<cell>());
    all.all.back()->text = "a text that is too long for the string itself, so it is somewhere else";
  });
  s().close();
  how.mode = rvm::open_mode::read_only;
  opened = std::make_unique<store>(path, how);
  const cells& all = *s().find_root<cells>("cells");
  {
    tenure::string copy = all.all[0]->text;
    copy += copy;
    EXPECT_EQ(copy.size(), 2 * all.all[0]->text.size());
    tenure::vector<tenure::string> many(100, copy);
    tenure::map<tenure::string, int> index;
    for (int n = 0; n < 1000; ++n) index[copy + std::to_string(n)] = n;
    EXPECT_EQ(index.size(), 1000u);
  }
  EXPECT_THROW((void)s().make<cell>(), error);
}
