// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions: modes, codes, stale identities; and every combination of flags, mappings and threads.
#include "classic/scenario.hpp"
#include "classic/transaction_records.hpp"
#include "support/sanitizers.hpp"

#include <pthread.h>

#include <atomic>
#include <latch>
#include <thread>
#include <tuple>
#include <vector>

namespace tenure::classic {
namespace {

class classic_transactions : public classic_test {};

TEST_F(classic_transactions, codes_and_their_order) {
  in_process([&] {
    const rvm_region_t region = open();
    char outside[8] = {};
    rvm_tid_t tid;
    std::memset(&tid, 0, sizeof tid);
    EXPECT_CODE(RVM_ETID, rvm_begin_transaction(nullptr, flush));  // the tid before the mode
    EXPECT_CODE(RVM_ETID, rvm_begin_transaction(&tid, restore));
    rvm_init_tid(&tid);
    EXPECT_CODE(RVM_EMODE, rvm_begin_transaction(&tid, flush));
    EXPECT_CODE(RVM_EMODE, rvm_begin_transaction(&tid, static_cast<rvm_mode_t>(0)));
    EXPECT_CODE(RVM_ETID, rvm_set_range(&tid, region.vmaddr, 1));  // never begun
    EXPECT_CODE(RVM_ETID, rvm_set_range(nullptr, region.vmaddr, 1));
    EXPECT_CODE(RVM_ETID, rvm_modify_bytes(nullptr, outside, outside, 0));
    EXPECT_CODE(RVM_ETID, rvm_abort_transaction(&tid));
    EXPECT_CODE(RVM_EMODE, rvm_end_transaction(&tid, restore));  // the mode before the tid
    EXPECT_CODE(RVM_ETID, rvm_end_transaction(&tid, flush));
    EXPECT_CODE(RVM_ETID, rvm_end_transaction(nullptr, no_flush));

    EXPECT_OK(rvm_begin_transaction(&tid, restore));
    EXPECT_CODE(RVM_ENOT_MAPPED, rvm_set_range(&tid, outside, 1));
    EXPECT_CODE(RVM_ENOT_MAPPED, rvm_set_range(&tid, region.vmaddr + region.length - 1, 2));
    EXPECT_CODE(RVM_ENOT_MAPPED, rvm_modify_bytes(&tid, outside, "x", 1));
    EXPECT_OK(rvm_set_range(&tid, region.vmaddr, 0));
    EXPECT_OK(rvm_set_range(&tid, outside, 0));
    EXPECT_OK(rvm_modify_bytes(&tid, outside, nullptr, 0));
    EXPECT_CODE(RVM_EMODE, rvm_end_transaction(&tid, no_restore));
    EXPECT_OK(rvm_end_transaction(&tid, flush));
  });
}

TEST_F(classic_transactions, stale_identities) {
  in_process([&] {
    const rvm_region_t region = open();
    rvm_tid_t tid = begun();
    rvm_tid_t copy = tid;
    rvm_tid_t* const heap_copy = rvm_copy_tid(&tid);
    ASSERT_NE(heap_copy, nullptr);
    EXPECT_OK(rvm_set_range(heap_copy, region.vmaddr, 1));  // a copy is as good
    EXPECT_OK(rvm_end_transaction(&tid, no_flush));
    for (rvm_tid_t* stale : {&tid, &copy, heap_copy}) {
      EXPECT_CODE(RVM_ETID, rvm_set_range(stale, region.vmaddr, 1));
      EXPECT_CODE(RVM_ETID, rvm_abort_transaction(stale));
      EXPECT_CODE(RVM_ETID, rvm_end_transaction(stale, flush));
    }
    // The next transaction has the same record, and another name.
    rvm_tid_t next = begun();
    EXPECT_EQ(next.tid, copy.tid);
    EXPECT_CODE(RVM_ETID, rvm_abort_transaction(&copy));
    EXPECT_CODE(RVM_ETID, rvm_end_transaction(heap_copy, flush));
    EXPECT_OK(rvm_begin_transaction(&copy, no_restore));  // a stale one may be used again
    EXPECT_OK(rvm_abort_transaction(&copy));
    EXPECT_OK(rvm_abort_transaction(&next));
    rvm_free_tid(heap_copy);
  });
}

// [classic.tid.exclusive] Of several begins with one tid, one begins a transaction.
TEST_F(classic_transactions, one_tid_in_several_threads) {
  in_process([&] {
    const rvm_region_t region = open();
    rvm_tid_t shared;
    rvm_init_tid(&shared);
    std::atomic<int> begun{0}, ended{0};
    const auto use = [&] {
      for (int i = 0; i < 500'000; ++i) {
        if (rvm_begin_transaction(&shared, restore) == RVM_SUCCESS) ++begun;
        if (rvm_end_transaction(&shared, no_flush) == RVM_SUCCESS) ++ended;
      }
    };
    std::thread other(use);
    use();
    other.join();
    if (rvm_end_transaction(&shared, no_flush) == RVM_SUCCESS) ++ended;
    EXPECT_EQ(begun, ended);
    EXPECT_GT(begun, 0);
    rvm_region_t same = region;
    EXPECT_OK(rvm_unmap(&same));
    EXPECT_OK(rvm_terminate());
  });
}

TEST_F(classic_transactions, abort) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "old");
    rvm_tid_t tid = begun(restore);
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "new", 3));
    EXPECT_OK(rvm_set_range(&tid, region.vmaddr + 1, 10));  // overlapping
    std::memcpy(region.vmaddr + 2, "more", 4);
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_EQ(std::string(region.vmaddr, 6), std::string("old\0\0\0", 6));
    // What was begun no_restore stays as it is.
    tid = begun(no_restore);
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "new", 3));
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_STREQ(region.vmaddr, "new");
  });
  EXPECT_EQ(recovered(0, 3), "old");
}

TEST_F(classic_transactions, no_flush_then_flush) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "one", no_flush);
    EXPECT_OK(rvm_flush());
    put(region.vmaddr + 8, "two", no_flush);
  });
  EXPECT_EQ(recovered(0, 3), "one");
}

TEST_F(classic_transactions, truncate_writes_the_segment) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr + 7, "there", no_flush);
    EXPECT_OK(rvm_truncate());
  });
  EXPECT_EQ(contents_of(segment).substr(7, 5), "there");
}

TEST_F(classic_transactions, a_small_log_goes_around) {
  const std::string small = dir / "small";
  log = small;
  make_log(4096);
  in_process([&] {
    const rvm_region_t region = open();
    for (int i = 0; i < 2000; ++i) {
      rvm_tid_t tid = begun();
      EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr + i % 16 * page, &i, sizeof i));
      EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr + page / 2, std::string(1000, static_cast<char>(i)).data(), 1000));
      EXPECT_OK(rvm_end_transaction(&tid, i % 50 == 0 ? flush : no_flush));
    }
    EXPECT_OK(rvm_flush());
    rvm_statistics_t statistics;
    rvm_init_statistics(&statistics);
    EXPECT_OK(RVM_STATISTICS(&statistics));
    EXPECT_GT(statistics.n_wrap, 3u);
    EXPECT_EQ(statistics.tot_wrap, statistics.n_wrap);
  });
  int last;
  const std::string found = recovered(15 * page, sizeof last);
  ASSERT_EQ(found.size(), sizeof last);
  std::memcpy(&last, found.data(), sizeof last);
  EXPECT_EQ(last, 1999);
}

// One cell a thread; each transaction writes it in two overlapping ranges, some transactions abort.
void work(char* cell, int rounds, rvm_mode_t keep, rvm_mode_t how) {
  rvm_tid_t tid;
  rvm_init_tid(&tid);
  for (std::uint64_t i = 1; i <= static_cast<std::uint64_t>(rounds); ++i) {
    if (i % 5 == 0 && keep == restore) {
      EXPECT_OK(rvm_begin_transaction(&tid, restore));
      const std::uint64_t wrong = ~i;
      EXPECT_OK(rvm_modify_bytes(&tid, cell, &wrong, sizeof wrong));
      EXPECT_OK(rvm_abort_transaction(&tid));
    }
    EXPECT_OK(rvm_begin_transaction(&tid, keep));
    EXPECT_OK(rvm_set_range(&tid, cell, 12));
    std::memcpy(cell, &i, sizeof i);
    EXPECT_OK(rvm_modify_bytes(&tid, cell + 8, &i, sizeof i));
    EXPECT_OK(rvm_end_transaction(&tid, i % 20 == 0 ? flush : how));
  }
}

class classic_combination : public classic_test,
                            public testing::WithParamInterface<std::tuple<rvm_length_t, rvm_length_t, int>> {};

TEST_P(classic_combination, all_threads_commit) {
  const rvm_length_t optimizations = std::get<0>(GetParam()), mapping = std::get<1>(GetParam());
  const int threads = std::get<2>(GetParam());
  const int rounds = support::thread_sanitizer ? 20 : 100;
  for (const rvm_mode_t keep : {restore, no_restore})
    for (const rvm_mode_t how : {flush, no_flush}) {
      in_process([&] {
        const rvm_region_t region = open(optimizations | mapping);
        std::vector<std::jthread> all;
        for (int t = 0; t < threads; ++t)
          all.emplace_back([&, t] { work(region.vmaddr + t * 1000, rounds, keep, how); });
        all.clear();
        EXPECT_OK(rvm_flush());
      });
      in_process([&] {
        const rvm_region_t region = open(optimizations | mapping);
        for (int t = 0; t < threads; ++t) {
          std::uint64_t cell[2];
          std::memcpy(cell, region.vmaddr + t * 1000, sizeof cell);
          EXPECT_EQ(cell[0], static_cast<std::uint64_t>(rounds));
          EXPECT_EQ(cell[1], static_cast<std::uint64_t>(rounds));
        }
        EXPECT_OK(rvm_terminate());
      });
    }
}

// Destructors of a thread may use transactions when another one has what the library kept for that thread.
TEST_F(classic_transactions, of_a_thread_that_ends_share_no_slot_with_another) {
  in_process([&] {
    static std::latch given(1), taken(1), over(1);
    static user_slot *late = nullptr, *others = nullptr;
    const rvm_region_t region = open();
    pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key,
                                 [](void* to) {
                                   given.count_down();
                                   taken.wait();
                                   late = &my_slot();
                                   put(static_cast<char*>(to), "late");
                                   put(static_cast<char*>(to), "later");
                                   EXPECT_EQ(late, &my_slot());
                                 }),
              0);
    std::thread ending([&] {
      put(region.vmaddr, "early");
      EXPECT_EQ(pthread_setspecific(key, region.vmaddr), 0);
    });
    std::thread other([&] {
      given.wait();
      others = &my_slot();
      taken.count_down();
      over.wait();
    });
    ending.join();
    over.count_down();
    other.join();
    EXPECT_NE(late, nullptr);
    EXPECT_NE(late, others);
    EXPECT_STREQ(region.vmaddr, "later");
  });
}

INSTANTIATE_TEST_SUITE_P(classic, classic_combination,
                         ::testing::Combine(::testing::Values(0, RVM_COALESCE_RANGES, RVM_COALESCE_TRANS,
                                                              RVM_ALL_OPTIMIZATIONS),
                                            ::testing::Values(0, RVM_MAP_PRIVATE), ::testing::Values(1, 2, 25)));

}  // namespace
}  // namespace tenure::classic
