// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory runs out in the midst of what a transaction does, and it goes on: what has failed has changed nothing, and can be done again.
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include <tenure/tenure.hpp>

#include "support/model.hpp"
#include "support/short_memory.hpp"
#include "support/test_store.hpp"

namespace short_memory_changes {

struct noted {
  std::uint64_t number;
};
struct notes {
  tenure::vector<noted*> all;
  tenure::vector<tenure::weak<noted>> weakly;
};
struct hiding {
  std::uint64_t number;
  tenure::transient<std::uint64_t> first, second;
};
struct all_hiding {
  tenure::vector<hiding*> all;
};
struct never_whole {
  char bytes[300'000];
  explicit never_whole(int) {
    tenure::support::succeeding = 0;
    tenure::support::failing = 1'000'000'000;
    throw 7;
  }
  never_whole() = default;
  static constexpr auto persistent = tenure::members<&never_whole::bytes>{};
};

}  // namespace short_memory_changes

namespace tenure::support::changes_in_short_memory {

using namespace short_memory_changes;

namespace {

class changes_in_short_memory : public reopened_store {
 protected:
  // Calls f(), and once more with enough memory if it was too short. Returns whether it was.
  template <class F>
  [[nodiscard]] static bool fails_first(long long allocations, F&& f) {
    try {
      const short_memory now(allocations);
      f();
      return false;
    } catch (const std::bad_alloc&) {
    }
    f();
    return true;
  }
};

std::string name_of(std::uint64_t number) { return "a root with a name that is not short " + std::to_string(number); }

}  // namespace

TEST_F(changes_in_short_memory, roots_are_made_once) {
  std::uint64_t count = 0;
  for (long long allocations = 0, failed = 1; failed != 0; ++allocations) {
    SCOPED_TRACE(allocations);
    (void)s().find_root<noted>("reads all names");
    s().transact(
        [&] { failed = fails_first(allocations, [&] { s().root<noted>(name_of(count)).number = count; }) ? 1 : 0; });
    ++count;
    ASSERT_EQ(s().root_names().size(), count);
    expect_invariants(s());
  }
  EXPECT_GT(count, 3U);
  reopen();
  for (std::uint64_t n = 0; n < count; ++n) EXPECT_EQ(s().find_root<noted>(name_of(n))->number, n);
}

// A transaction that goes on without removing it has the root with its name.
TEST_F(changes_in_short_memory, roots_are_removed_as_a_whole) {
  std::uint64_t count = 0, failures = 0;
  for (long long allocations = 0, failed = 1; failed != 0; ++allocations) {
    SCOPED_TRACE(allocations);
    const std::string removed = name_of(count++);
    if (s().find_root<noted>(name_of(1000)) != nullptr) s().remove_root(name_of(1000));
    s().root<noted>(removed);
    s().root<noted>(name_of(1000));  // the last one, which takes the place of what is removed
    s().transact([&] {
      failed = 0;
      try {
        const short_memory now(allocations);
        s().remove_root(removed);
      } catch (const std::bad_alloc&) {
        failed = 1;
      }
    });
    const auto wrong = s().verify();
    ASSERT_TRUE(wrong.empty()) << wrong[0];
    expect_invariants(s());
    const noted* const left = s().find_root<noted>(removed);
    ASSERT_EQ(left != nullptr, failed != 0);
    if (left != nullptr) s().remove_root(removed);
    failures += static_cast<std::uint64_t>(failed);
  }
  EXPECT_GT(failures, 0U);
}

// Fields that are not recoverable keep their values when the commit fails.
TEST_F(changes_in_short_memory, fields_are_not_lost_to_a_commit) {
  std::uint64_t failures = 0;
  bool has_failed_any = true;  // an allocation. Not each is missed
  // Builds with assertions look at everything behind each commit, and need much more memory for that.
  for (long long allocations = 0; has_failed_any && allocations < 120; ++allocations) {
    SCOPED_TRACE(allocations);
    reopen();  // the first commit that hides fields
    auto& h = s().root<all_hiding>("hiding");
    transaction tx = s().begin();
    h.all.clear();
    for (std::uint64_t n = 0; n < 20; ++n) {
      h.all.push_back(s().make<hiding>());
      h.all.back()->first = n + 1;
      h.all.back()->second = 1000 + n;
    }
    bool has_failed = false;
    try {
      const short_memory now(allocations);
      tx.commit(commit_mode::lazy);
      has_failed_any = failing == 0;
    } catch (const std::bad_alloc&) {
      has_failed = true;
    }
    for (std::uint64_t n = 0; n < 20; ++n) {
      ASSERT_EQ(h.all[n]->first, n + 1);
      ASSERT_EQ(h.all[n]->second, 1000 + n);
    }
    if (has_failed) tx.abort();
    failures += has_failed ? 1 : 0;
  }
  EXPECT_GT(failures, 10U);
}

// All of them are found, or none: a part would count as all.
TEST_F(changes_in_short_memory, weak_references_are_found_as_a_whole) {
  s().transact([&] {
    auto& n = s().root<notes>("notes");
    for (std::uint64_t k = 0; k < 200; ++k) {
      n.all.push_back(s().make<noted>());
      n.weakly.push_back(weak<noted>(n.all.back()));
    }
  });
  std::uint64_t failures = 0;
  bool has_failed = true;
  for (long long allocations = 0; has_failed && failures < 150; allocations += 1 + allocations / 16) {
    SCOPED_TRACE(allocations);
    reopen();  // nothing is known of them
    auto& n = s().root<notes>("notes");
    transaction tx = s().begin();
    s().destroy(n.all.back());
    n.all.pop_back();
    has_failed = fails_first(allocations, [&] { tx.commit(commit_mode::lazy); });
    failures += has_failed ? 1 : 0;
    for (std::size_t k = 0; k < n.weakly.size(); ++k)
      ASSERT_EQ(static_cast<const void*>(n.weakly[k].lock()), k < n.all.size() ? n.all[k] : nullptr) << k;
  }
  EXPECT_GT(failures, 5U);
}

// A collection clears the reference, whatever was tried to make it.
TEST_F(changes_in_short_memory, weak_references_are_made_or_not) {
  std::uint64_t failures = 0;
  bool has_failed = true;
  for (long long allocations = 0; has_failed; ++allocations) {
    SCOPED_TRACE(allocations);
    reopen();
    auto& n = s().root<notes>("notes");
    weak<noted> mine;
    s().transact([&] {
      n.all.push_back(s().make<noted>());
      has_failed = fails_first(allocations, [&] { mine = weak<noted>(n.all.back()); });
    });
    EXPECT_EQ(mine.lock(), n.all.back());
    failures += has_failed ? 1 : 0;
    s().transact([&] { n.all.clear(); });
    s().collect({.roots = program_roots::handles});
    ASSERT_EQ(mine.lock(), nullptr);
  }
  EXPECT_GT(failures, 2U);
}

// Its blocks may stay unused then.
TEST_F(changes_in_short_memory, an_object_that_is_not_whole_ends_nothing_else) {
  for (int n = 0; n < 3; ++n) {
    try {
      (void)s().make<never_whole>(7);
      ADD_FAILURE();
    } catch (const int thrown) {
      EXPECT_EQ(thrown, 7);
    }
    short_memory::end();
  }
  opened.reset();
  open();
  s().transact([&] { s().root<notes>("notes").all.push_back(s().make<noted>()); });
  expect_sound(s());
}

}  // namespace tenure::support::changes_in_short_memory
