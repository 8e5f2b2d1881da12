// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "store/store_state.hpp"
#include "support/child_process.hpp"
#include "support/expect_error.hpp"
#include "support/mechanisms.hpp"
#include "support/small_image.hpp"
#include "support/test_store.hpp"
#include "support/waiting_thread.hpp"

using namespace tenure;
using namespace tenure::support;

namespace transaction_test_types {

struct account {
  long balance;
  account* next;
};

}  // namespace transaction_test_types
using namespace transaction_test_types;

class store_transaction : public reopened_store {
 protected:
  store_transaction() : first(&s().root<account>("first")) {}
  account* first;
};

TEST_F(store_transaction, abort_puts_memory_back) {
  s().transact([&] { first->balance = 10; });
  transaction tx = s().begin();
  EXPECT_TRUE(tx.is_open());
  first->balance = 20;
  first->next = s().make<account>();
  tx.abort();
  EXPECT_FALSE(tx.is_open());
  EXPECT_EQ(first->balance, 10);
  EXPECT_EQ(first->next, nullptr);
}

TEST_F(store_transaction, destroying_an_open_one_aborts) {
  {
    const transaction tx = s().begin();
    first->balance = 20;
  }
  EXPECT_EQ(first->balance, 0);
}

TEST_F(store_transaction, an_exception_rolls_back) {
  EXPECT_THROW(s().transact([&] {
    first->balance = 20;
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_EQ(first->balance, 0);
  EXPECT_EQ(s().transact([&] { return first->balance = 3; }), 3);
}

TEST_F(store_transaction, memory_of_what_an_abort_took_back_is_used_again) {
  const auto once = [&](bool keep) {
    transaction tx = s().begin();
    for (int i = 0; i < 20000; ++i) s().make<account>()->balance = -1;
    account* const last = s().make<account>();
    if (!keep) {
      tx.abort();
      return last;
    }
    EXPECT_EQ(last->balance, 0) << "new objects are zero, whatever was there";
    tx.commit();
    return last;
  };
  account* const a = once(false);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(once(false), a);
  EXPECT_EQ(once(true), a);
}

// Transient objects come to lie in the holes that destroyed ones have left on pages that are tracked. What they leave there in
// turn is no stray write, and is never logged.
class remains : public reopened_store, public ::testing::WithParamInterface<rvm::tracking_mechanism> {
 protected:
  remains() {
    how.mechanism = GetParam();
    reopen();
    first = &s().root<account>("first");
    s().transact([&] {
      account* all = nullptr;
      for (int i = 0; i < 20000; ++i) all = s().make<account>(i, all);
      account* last = first;
      for (account* a = all; a != nullptr;) {
        account* const next = a->next;
        if (a->balance % 100 == 0)
          last = last->next = a;
        else
          s().destroy(a);
        a = next;
      }
      last->next = nullptr;
    });
    lowest = highest = first;
    for (account* a = first->next; a != nullptr; a = a->next)
      lowest = std::min(lowest, a), highest = std::max(highest, a);
    reopen();  // blocks are filled again that earlier processes have left
    first = &s().root<account>("first");
  }
  // Until some lie between the persistent ones.
  std::vector<account*> make_transient_ones() {
    std::vector<account*> made;
    std::size_t between = 0;
    while (between < 5000 && made.size() < 1'000'000) {
      made.push_back(s().make<account>(-1, nullptr));
      between += made.back() > lowest && made.back() < highest;
    }
    EXPECT_EQ(between, 5000u) << "several blocks";
    return made;
  }
  // Writes to all the pages, and returns what that has logged.
  std::uint64_t change_all(transaction& tx) {
    for (account* a = first; a != nullptr; a = a->next) ++a->balance;
    const std::uint64_t before = s().stats().memory.bytes_logged;
    tx.commit();
    return s().stats().memory.bytes_logged - before;
  }
  account *first = nullptr, *lowest = nullptr, *highest = nullptr;
};

TEST_P(remains, of_an_aborted_transaction) {
  transaction tx = s().begin();
  const std::uint64_t usual = change_all(tx);
  for (int round = 0; round < 5; ++round) {
    tx = s().begin();
    for (account* a = first; a != nullptr; a = a->next) a->balance += 7;
    (void)make_transient_ones();
    tx.abort();
    tx = s().begin();
    EXPECT_LE(change_all(tx), usual) << "round " << round;
  }
}

TEST_P(remains, of_objects_that_were_destroyed_later) {
  transaction tx = s().begin();
  const std::uint64_t usual = change_all(tx);
  for (int round = 0; round < 5; ++round) {
    tx = s().begin();
    const std::vector<account*> made = make_transient_ones();
    EXPECT_LE(change_all(tx), usual) << "round " << round;
    tx = s().begin();
    for (account* const a : made) s().destroy(a);
    EXPECT_LE(change_all(tx), usual) << "round " << round;
    tx = s().begin();
    EXPECT_LE(change_all(tx), usual) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(store, remains, every_mechanism, mechanism_name);

// Containers rely on it.
TEST_F(store_transaction, arrays_are_zero_whatever_was_there) {
  constexpr std::size_t small = 100, large = 5000;  // elements
  const auto is_zero = [](const long* array, std::size_t count) {
    return std::all_of(array, array + count, [](long n) { return n == 0; });
  };
  long* kept[2] = {};
  for (int round = 0; round < 12; ++round) {
    transaction tx = s().begin();
    for (int n = 0; n < 2; ++n) {
      const std::size_t count = n == 0 ? small : large;
      auto* const made = static_cast<long*>(detail::allocate(type_of<long>(), count, first));
      EXPECT_TRUE(is_zero(made, count)) << "round " << round;
      std::fill_n(made, count, -1L);
      detail::deallocate(kept[n]);
      if (round % 3 != 0) kept[n] = made;
    }
    if (round % 3 == 0)
      tx.abort();
    else
      tx.commit(commit_mode::lazy);
  }
}

TEST_F(store_transaction, checkpoint_keeps_what_is_done_and_stays_open) {
  transaction tx = s().begin();
  first->balance = 1;
  tx.checkpoint();
  first->balance = 2;
  tx.abort();
  EXPECT_EQ(first->balance, 1);
  reopen();
  EXPECT_EQ(s().root<account>("first").balance, 1);
}

TEST_F(store_transaction, chain_commits_and_begins_again) {
  transaction tx = s().begin();
  for (int i = 1; i <= 10; ++i) {
    first->balance = i;
    tx.chain(i % 2 == 0 ? commit_mode::durable : commit_mode::lazy);
    EXPECT_TRUE(tx.is_open());
  }
  first->balance = 77;
  tx.abort();
  EXPECT_EQ(first->balance, 10);
}

TEST_F(store_transaction, ended_ones_cannot_be_used) {
  transaction tx = s().begin();
  tx.commit();
  expect_error(errc::bad_transaction, {"ended"}, [&] { tx.commit(); });
  expect_error(errc::bad_transaction, {"ended"}, [&] { tx.abort(); });
  expect_error(errc::bad_transaction, {"ended"}, [&] { tx.checkpoint(); });
  expect_error(errc::bad_transaction, {"ended"}, [&] { tx.chain(); });
}

TEST_F(store_transaction, a_reader_cannot_become_a_writer) {
  s().read([&] { expect_error(errc::bad_transaction, {"read transaction"}, [&] { (void)s().begin(); }); });
  s().transact([&] { first->balance = 1; });
  s().transact([&] { s().read([&] { EXPECT_EQ(first->balance, 1); }); });
}

TEST_F(store_transaction, lazy_commits_survive_close_and_wait) {
  transaction tx = s().begin();
  first->balance = 5;
  const ticket at = tx.commit(commit_mode::lazy);
  s().wait(at);
  s().transact([&] { first->balance = 6; }, commit_mode::lazy);
  reopen();
  EXPECT_EQ(s().root<account>("first").balance, 6);
}

TEST_F(store_transaction, labels_are_kept_for_the_history) {
  transaction tx = s().begin();
  tx.label("who");
  first->balance = 1;
  tx.commit();
}

// Nobody gets in before the values of a commit are fixed.
TEST_F(store_transaction, values_are_captured_before_the_gate_opens) {
  struct witness final : rvm::participant {
    store_state& state;
    bool was_captured = false, had_the_gate = false;
    explicit witness(store_state& of) : state(of) {}
    void prepare(rvm::commit_scope&) override {}
    void undo_prepare(rvm::commit_scope&) noexcept override {}
    void captured(rvm::commit_scope&) noexcept override {
      was_captured = true;
      had_the_gate = state.is_writer();
    }
    void committed(rvm::commit_scope&) noexcept override {}
    void aborted(rvm::commit_scope&) noexcept override {}
  };
  store_state state(dir / "another", small_store());
  witness w(state);
  state.begin();
  state.tx.join(w);
  state.databases->front().add_root("root", state.databases->front().make_array<char>(1));
  (void)state.commit();
  EXPECT_TRUE(w.was_captured);
  EXPECT_TRUE(w.had_the_gate);
  EXPECT_FALSE(state.is_writer());
}

TEST_F(store_transaction, one_that_outlives_its_store_finds_it_closed) {
  const store_options small = small_store();
  const auto outlived = [&](auto&& use) {
    transaction tx;
    {
      store other(dir / "other", small);
      tx = other.begin();
      other.root<int>("number") = 5;
    }
    EXPECT_TRUE(tx.is_open());
    use(tx);
  };
  outlived([](transaction&) {});  // destroyed
  outlived([](transaction& tx) { expect_error(errc::closed, {"has been closed"}, [&] { tx.commit(); }); });
  outlived([](transaction& tx) { expect_error(errc::closed, {"has been closed"}, [&] { tx.abort(); }); });
  outlived([](transaction& tx) { tx = {}; });
  {
    std::optional<store> other(std::in_place, dir / "other", small);
    const read_transaction reading = other->begin_read();
    other.reset();
  }
  store other(dir / "other", small);
  EXPECT_EQ(other.root_names().size(), 0U);
  EXPECT_TRUE(other.verify().empty());
}

// Wherever it fails: what was committed is there, and nothing of the store can be used that is not mapped any more.
TEST(closing_a_store, that_fails_closes_it) {
  const std::uint64_t home = next_home(2 * image_reservation);
  int failures = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    sim::disk disk;
    make_image(disk, home);
    bool failed = false;
    {
      store s(image_path, image_options(disk, home));
      s.transact([&] { ++s.root<image_types::catalog>("catalog").large->bytes[0]; });
      disk.inject({.nth = nth});
      try {
        s.close();
      } catch (const std::system_error&) {
        failed = true;
      }
      disk.clear_faults();
      expect_error(errc::closed, {image_path, "has been closed"}, [&] { (void)s.root_names(); });
      expect_error(errc::closed, {image_path, "has been closed"}, [&] { s.make<image_types::part>(); });
      EXPECT_NO_THROW(s.close());
      EXPECT_NO_THROW(store(image_path, image_options(disk, home))) << "its files are released";
    }
    store s(image_path, image_options(disk, home));
    EXPECT_EQ(s.root<image_types::catalog>("catalog").large->bytes[0], static_cast<char>('s' + 1));
    expect_sound(s);
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 3);
}

TEST_F(store_transaction, a_child_that_destroys_its_parents_store_does_it_no_harm) {
  transaction tx = s().begin();
  first->balance = 5;
  child_process child([&] {
    opened.reset();
    { const transaction gone = std::move(tx); }
    return 0;
  });
  EXPECT_TRUE(child.wait().exited_with(0));
  first->balance = 6;
  tx.commit();
  reopen();
  first = &s().root<account>("first");
  EXPECT_EQ(first->balance, 6);
}

TEST_F(store_transaction, a_writer_waits_for_readers) {
  std::optional<read_transaction> reading = s().begin_read();
  EXPECT_TRUE(waits_for([&] { reading.reset(); },
                        [&](std::atomic<bool>& is_in) {
                          s().transact([&] {
                            is_in = true;
                            ++first->balance;
                          });
                        }));
  EXPECT_EQ(first->balance, 1);
}

TEST_F(store_transaction, readers_share_and_writers_exclude_them) {
  constexpr int threads = 4, rounds = 200;
  s().transact([&] { first->next = s().make<account>(); });
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        if (t % 2 == 0)
          s().transact(
              [&] {
                ++first->balance;
                --first->next->balance;
              },
              i % 50 == 0 ? commit_mode::durable : commit_mode::lazy);
        else
          s().read([&] { EXPECT_EQ(first->balance + first->next->balance, 0); });
      }
    });
  for (auto& t : all) t.join();
  EXPECT_EQ(first->balance, threads / 2 * rounds);
}

TEST_F(store_transaction, durable_commits_of_many_threads_share_syncs) {
  constexpr int threads = 8, rounds = 40;
  const auto before = s().stats().memory.syncs;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) s().transact([&] { ++first->balance; });
    });
  for (auto& t : all) t.join();
  EXPECT_EQ(first->balance, threads * rounds);
  EXPECT_LT(s().stats().memory.syncs - before, std::uint64_t{threads} * rounds);
}

TEST_F(store_transaction, that_another_thread_destroys_is_aborted_by_its_own) {
  transaction tx = s().begin();
  const long before = std::exchange(first->balance, 5);
  std::thread([taken = std::move(tx)] {}).join();
  s().transact([&] {
    EXPECT_EQ(first->balance, before);
    first->balance = 7;
  });
  EXPECT_EQ(s().stats().aborts, 1U);
  reopen();
  EXPECT_EQ(s().root<account>("first").balance, 7);
}

// Its thread goes on with the stores that are open.
TEST_F(store_transaction, of_a_store_that_another_thread_destroys_leaves_its_thread_no_store) {
  for (const bool ends_first : {true, false}) {
    std::latch has_begun(1), is_open_again(1);
    std::thread other([&] {
      std::optional<transaction> tx = s().begin();
      has_begun.count_down();
      is_open_again.wait();
      if (ends_first) tx.reset();
      EXPECT_NO_THROW({
        const tenure::string text(std::string(1000, 'x'));
        EXPECT_TRUE(store_at(text.data()) != nullptr);
      });
    });
    has_begun.wait();
    opened.reset();
    open();
    is_open_again.count_down();
    other.join();
  }
}

TEST_F(store_transaction, objects_of_other_threads_survive_an_abort) {
  account* theirs = nullptr;
  transaction tx = s().begin();
  std::thread([&] { theirs = s().make<account>(account{9, nullptr}); }).join();
  account* const mine = s().make<account>(account{8, nullptr});
  EXPECT_NE(mine, theirs);
  tx.abort();
  EXPECT_EQ(theirs->balance, 9);
  s().transact([&] { first->next = theirs; });
  reopen();
  EXPECT_EQ(s().root<account>("first").next->balance, 9);
}

TEST_F(store_transaction, touch_opens_memory_for_the_kernel) {
  struct pipe_ends {
    int ends[2];
    pipe_ends() { EXPECT_EQ(::pipe(ends), 0); }
    ~pipe_ends() {
      ::close(ends[0]);
      ::close(ends[1]);
    }
  } const p;
  const long sent = 42;
  ASSERT_EQ(::write(p.ends[1], &sent, sizeof sent), static_cast<ssize_t>(sizeof sent));
  transaction tx = s().begin();
  tx.touch(&first->balance, sizeof first->balance);
  ASSERT_EQ(::read(p.ends[0], &first->balance, sizeof sent), static_cast<ssize_t>(sizeof sent));
  tx.commit();
  reopen();
  EXPECT_EQ(s().root<account>("first").balance, 42);
}
