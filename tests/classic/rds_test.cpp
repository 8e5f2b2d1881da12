// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The heap: its life, its guards, its codes, and transactions that overlap.
#include <rvm/rds.h>

#include <set>
#include <thread>
#include <vector>

#include "classic/scenario.hpp"

extern long NRegionDefs;  // as programs for the original declare it

namespace tenure::classic {
namespace {

char* const base = fixed_address(2);

class classic_rds : public classic_test {
 protected:
  std::string file = dir / "heap";
  char* fixed = nullptr;
  int err = 0;

  void SetUp() override {
    classic_test::SetUp();
    write_file(file, "");
    in_process([&] {
      init();
      EXPECT_EQ(rds_zap_heap(file.data(), {0, 0}, base, 2 * page, 256 * page, 20, 64, &err), 0) << err;
      EXPECT_OK(rvm_terminate());
    });
  }
  void init() {
    options_for options(log);
    EXPECT_OK(RVM_INIT(&options));
  }
  void load() {
    init();
    EXPECT_EQ(rds_load_heap(file.data(), {0, 0}, &fixed, &err), 0) << err;
  }
  // A block with a text, which the static region points to.
  void keep(const std::string& text) {
    rvm_tid_t tid = begun();
    char* const block = rds_malloc(text.size() + 1, &tid, &err);
    ASSERT_NE(block, nullptr) << err;
    EXPECT_OK(rvm_modify_bytes(&tid, block, text.c_str(), text.size() + 1));
    EXPECT_OK(rvm_modify_bytes(&tid, fixed, &block, sizeof block));
    EXPECT_OK(rvm_end_transaction(&tid, flush));
  }
  [[nodiscard]] char*& kept() const { return *reinterpret_cast<char**>(fixed); }
};

TEST_F(classic_rds, blocks_survive) {
  in_process([&] {
    load();
    EXPECT_EQ(fixed, base + 256 * page);
    keep("survives");
  });
  in_process([&] {
    load();
    EXPECT_STREQ(kept(), "survives");
    EXPECT_EQ(rds_free(kept(), nullptr, &err), 0);
    EXPECT_EQ(err, SUCCESS);
    EXPECT_EQ(rds_unload_heap(&err), 0);
    EXPECT_EQ(err, SUCCESS);
    EXPECT_EQ(NRegionDefs, 0);
    EXPECT_EQ(rds_load_heap(file.data(), {0, 0}, &fixed, &err), 0);
    EXPECT_EQ(rds_free(kept(), nullptr, &err), -1);
    EXPECT_EQ(err, EFREED_TWICE);
  });
}

TEST_F(classic_rds, guards) {
  in_process([&] {
    load();
    char* const block = rds_malloc(100, nullptr, &err);
    char* const other = rds_malloc(100, nullptr, &err);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0u);
    rvm_tid_t tid = begun();
    for (char* const wrong : {static_cast<char*>(nullptr), block + 1, block + 16, base, fixed, block - 16}) {
      EXPECT_EQ(rds_free(wrong, &tid, &err), -1);
      EXPECT_EQ(err, EBAD_ARGS) << static_cast<void*>(wrong);
    }
    // Something is written beyond the block, before it, over its length.
    for (const int at : {104, 111, -1, -8, -16, -9}) {
      const char was = block[at];
      block[at] = static_cast<char>(was ^ 0x55);
      EXPECT_EQ(rds_free(block, &tid, &err), -1);
      EXPECT_EQ(err, ECORRUPT) << at;
      block[at] = was;
    }
    EXPECT_EQ(rds_free(block, &tid, &err), 0);
    EXPECT_EQ(rds_free(block, &tid, &err), -1);
    EXPECT_EQ(err, EFREED_TWICE);
    EXPECT_EQ(rds_free(block, nullptr, &err), -1);  // another transaction, while the first is open
    EXPECT_EQ(err, EFREED_TWICE);
    EXPECT_OK(rvm_end_transaction(&tid, flush));
    EXPECT_EQ(rds_free(block, nullptr, &err), -1);
    EXPECT_EQ(err, EFREED_TWICE);
    EXPECT_EQ(rds_free(other, nullptr, nullptr), 0);  // err may be NULL
  });
}

// Coda's test program reads a block to the end of its last word, and its own writing must be all that changes there.
TEST_F(classic_rds, whole_words) {
  in_process([&] {
    load();
    for (int round = 0; round < 2; ++round) {
      std::vector<char*> blocks;
      for (unsigned long size = 0; size <= 100; ++size) {
        char* const block = rds_malloc(size, nullptr, &err);
        ASSERT_NE(block, nullptr);
        for (unsigned long i = size; i % 8 != 0; ++i) EXPECT_EQ(block[i], '\0') << size << ", round " << round;
        blocks.push_back(block);
        const unsigned long words = (size + 7) / 8 * 8;
        rvm_tid_t tid = begun();
        EXPECT_OK(rvm_set_range(&tid, block, words));
        std::memset(block, 0xff, words);
        EXPECT_OK(rvm_end_transaction(&tid, no_flush));
      }
      // Words are the program's to the end; what lies behind is not. In the second round their room is used again.
      for (char* const block : blocks) EXPECT_EQ(rds_free(block, nullptr, &err), 0) << err;
    }
  });
}

TEST_F(classic_rds, codes) {
  in_process([&] {
    EXPECT_EQ(rds_malloc(1, nullptr, &err), nullptr);
    EXPECT_EQ(err, RVM_EINIT);
    EXPECT_EQ(rds_load_heap(file.data(), {0, 0}, &fixed, &err), -1);
    EXPECT_EQ(err, RVM_EINIT);
    init();
    EXPECT_EQ(rds_malloc(1, nullptr, &err), nullptr);
    EXPECT_EQ(err, EHEAP_INIT);
    EXPECT_EQ(rds_free(base, nullptr, &err), -1);
    EXPECT_EQ(err, EHEAP_INIT);
    EXPECT_EQ(rds_unload_heap(&err), -1);
    EXPECT_EQ(err, EHEAP_INIT);
    EXPECT_EQ(rds_stop_heap(&err), -1);
    EXPECT_EQ(err, EHEAP_INIT);
    rds_stats_t stats;
    EXPECT_EQ(rds_get_stats(&stats), -1);
    EXPECT_EQ(rds_maxblock(1), 0);
    EXPECT_EQ(rds_load_heap(segment.data(), {0, 0}, &fixed, &err), -1);
    EXPECT_EQ(err, EBAD_SEGMENT_HDR);
    EXPECT_EQ(rds_start_heap(base, &err), -1);
    EXPECT_EQ(err, RVM_ENOT_MAPPED);
    EXPECT_EQ(rds_start_heap(base + 1, &err), -1);
    EXPECT_EQ(err, EBAD_ARGS);
    EXPECT_EQ(rds_zap_heap(file.data(), {0, 0}, base + 1, page, 64 * page, 20, 64, &err), -1);
    EXPECT_EQ(err, RVM_ERANGE);

    EXPECT_EQ(rds_load_heap(file.data(), {0, 0}, &fixed, &err), 0);
    EXPECT_EQ(rds_load_heap(file.data(), {0, 0}, &fixed, &err), -1);
    EXPECT_EQ(err, EHEAP_INIT);
    EXPECT_EQ(rds_start_heap(base, &err), -1);
    EXPECT_EQ(err, EHEAP_INIT);
    EXPECT_EQ(rds_malloc(100 * page * page, nullptr, &err), nullptr);
    EXPECT_EQ(err, ENO_ROOM);
    EXPECT_EQ(rds_malloc(~0ul, nullptr, &err), nullptr);
    EXPECT_EQ(err, ENO_ROOM);
    EXPECT_EQ(rds_prealloc(page, 10000, nullptr, &err), -1);
    EXPECT_EQ(err, ENO_ROOM);
    EXPECT_EQ(rds_prealloc(0, 1, nullptr, &err), -1);
    EXPECT_EQ(err, EBAD_ARGS);
    rvm_tid_t never;
    rvm_init_tid(&never);
    EXPECT_EQ(rds_malloc(1, &never, &err), nullptr);
    EXPECT_EQ(err, RVM_ETID);
    EXPECT_EQ(rds_prealloc(1, 1, &never, &err), -1);
    EXPECT_EQ(err, RVM_ETID);
    rvm_tid_t tid = begun();
    EXPECT_EQ(rds_stop_heap(&err), -1);
    EXPECT_EQ(err, RVM_EUNCOMMIT);
    EXPECT_EQ(rds_unload_heap(&err), -1);
    EXPECT_EQ(err, RVM_EUNCOMMIT);
    EXPECT_EQ(rds_init_heap(base, 100, 64, 1, &tid, &err), -1);
    EXPECT_EQ(err, EBAD_ARGS);
    EXPECT_EQ(rds_init_heap(base, 64 * page, 32, 1, &tid, &err), -1);
    EXPECT_EQ(err, EBAD_ARGS);
    EXPECT_EQ(rds_init_heap(base, 64 * page, 64, 0, &tid, &err), -1);
    EXPECT_EQ(err, EBAD_ARGS);
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_EQ(rds_stop_heap(&err), 0);
    EXPECT_EQ(rds_start_heap(fixed, &err), -1);  // no heap there
    EXPECT_EQ(err, EHEAP_INIT);
  });
}

TEST_F(classic_rds, a_heap_over_another) {
  in_process([&] {
    load();
    for (int i = 0; i < 1000; ++i) EXPECT_NE(rds_malloc(100, nullptr, &err), nullptr);
    rds_stats_t full, empty;
    EXPECT_EQ(rds_get_stats(&full), 0);
    EXPECT_EQ(rds_stop_heap(&err), 0);
    rvm_tid_t tid = begun();
    EXPECT_EQ(rds_init_heap(base, 256 * page, 64, 20, &tid, &err), 0) << err;
    EXPECT_OK(rvm_end_transaction(&tid, flush));
    EXPECT_EQ(rds_start_heap(base, &err), 0);
    EXPECT_EQ(rds_get_stats(&empty), 0);
    EXPECT_GE(full.mallocbytes, 124'000u);
    EXPECT_EQ(empty.mallocbytes, 0u);
    EXPECT_NE(rds_malloc(100, nullptr, &err), nullptr);
  });
}

TEST_F(classic_rds, a_block_larger_than_the_log) {
  in_process([&] {
    load();
    char* const block = rds_malloc(512 * 1024, nullptr, &err);  // the log has 256 KiB: blocks are not logged
    ASSERT_NE(block, nullptr) << err;
    put(block + 400'000, "far");
  });
}

TEST_F(classic_rds, deferred_freeing) {
  in_process([&] {
    load();
    intentionList_t list{};
    std::vector<char*> blocks;
    for (int i = 0; i < 200; ++i) blocks.push_back(rds_malloc(50, nullptr, &err));
    for (char* block : blocks) EXPECT_EQ(rds_fake_free(block, &list), SUCCESS);
    EXPECT_EQ(list.count, 200u);
    EXPECT_EQ(rds_fake_free(nullptr, &list), EBAD_ARGS);
    EXPECT_EQ(rds_fake_free(blocks[0], nullptr), EBAD_ARGS);
    EXPECT_EQ(rds_do_free(nullptr, flush), EBAD_ARGS);
    EXPECT_EQ(rds_do_free(&list, restore), RVM_EMODE);
    EXPECT_EQ(rds_fake_free(blocks[7], &list), SUCCESS);  // twice in the list: found when it is freed
    EXPECT_EQ(rds_do_free(&list, no_flush), EFREED_TWICE);
    EXPECT_EQ(list.count, 201u);
    --list.count;
    EXPECT_EQ(rds_do_free(&list, no_flush), SUCCESS);
    EXPECT_EQ(list.count, 0u);
    EXPECT_EQ(rds_do_free(&list, flush), SUCCESS);
    rds_stats_t stats;
    EXPECT_EQ(rds_get_stats(&stats), 0);
    EXPECT_EQ(stats.mallocbytes, 0u);
    EXPECT_EQ(stats.free, 200u);
    std::free(list.table);
  });
}

TEST_F(classic_rds, threads) {
  in_process([&] {
    load();
    std::vector<std::vector<char*>> blocks(8);
    {
      std::vector<std::jthread> all;
      for (auto& mine : blocks)
        all.emplace_back([&] {
          int code;
          for (unsigned long i = 0; i < 100; ++i) {
            rvm_tid_t tid = begun();
            mine.push_back(rds_malloc(10 + i, &tid, &code));
            EXPECT_EQ(code, SUCCESS);
            EXPECT_OK(i % 3 == 0 ? rvm_abort_transaction(&tid) : rvm_end_transaction(&tid, no_flush));
            if (i % 3 == 0) mine.pop_back();
            if (i % 4 == 0 && !mine.empty()) {
              EXPECT_EQ(rds_free(mine.front(), nullptr, &code), 0);
              mine.erase(mine.begin());
            }
          }
        });
    }
    std::set<char*> different;
    for (const auto& mine : blocks) different.insert(mine.begin(), mine.end());
    std::size_t number = 0;
    for (const auto& mine : blocks) number += mine.size();
    EXPECT_EQ(different.size(), number);
    for (char* block : different) EXPECT_EQ(rds_free(block, nullptr, &err), 0) << err;
  });
}

// A heap that is stopped, by a try before perhaps, can still be unloaded.
TEST_F(classic_rds, is_unloaded_by_a_second_try) {
  in_process([&] {
    load();
    keep("survives");
    EXPECT_EQ(rds_stop_heap(&err), 0);
    rvm_tid_t tid = begun();
    EXPECT_OK(rvm_set_range(&tid, fixed, 8));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(rds_unload_heap(&err), -1);
      EXPECT_EQ(err, RVM_EUNCOMMIT);
      EXPECT_EQ(NRegionDefs, 2);
      EXPECT_NE(RegionDefs, nullptr);
    }
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_EQ(rds_unload_heap(&err), 0) << err;
    EXPECT_EQ(NRegionDefs, 0);
    EXPECT_EQ(RegionDefs, nullptr);
    EXPECT_EQ(rds_load_heap(file.data(), {0, 0}, &fixed, &err), 0) << err;
    EXPECT_STREQ(kept(), "survives");
  });
}

}  // namespace
}  // namespace tenure::classic
