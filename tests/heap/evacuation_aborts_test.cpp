// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Evacuation beside transactions that abort: references that an abort puts back lead to where objects are then
// [heap.evacuation.changes].
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include <tenure/tenure.hpp>

#include "support/model.hpp"
#include "support/test_store.hpp"

namespace aborts_beside_evacuation {

using namespace tenure;

struct target {
  std::uint64_t number = 0;
  std::uint64_t words[7] = {};
};
struct page {
  target* to[512] = {};
};
// Lies before the pages, and refers to nothing: it is put back first, and takes longer than looking for references.
struct blob {
  std::uint64_t words[1 << 17] = {};
};
struct holding {
  tenure::vector<target*> all;
  tenure::vector<blob*> blobs;
  tenure::vector<page*> pages;
};
constexpr std::uint64_t target_count = 512, blob_count = 16, page_count = 64, in_between = 3;

class evacuations_beside_aborts : public support::reopened_store {
 protected:
  holding& root() { return opened->root<holding>("holding"); }
  void make_pages() {
    opened->transact([&] {
      holding& in = root();
      for (std::uint64_t n = 0; n < blob_count; ++n) in.blobs.push_back(opened->make<blob>());
      for (std::uint64_t n = 0; n < page_count; ++n) in.pages.push_back(opened->make<page>());
    });
  }
  // One in four stays, and all pages refer to what stays.
  void make_new_targets() {
    opened->transact([&] {
      holding& in = root();
      in.all.clear();
      for (std::uint64_t n = 0; n < target_count; ++n) {
        for (std::uint64_t left = 0; left < in_between; ++left) (void)opened->make<target>();
        auto* const made = opened->make<target>();
        made->number = n;
        in.all.push_back(made);
        // Persistent garbage beside it: what nothing led to at the commit would not even be swept.
        for (std::uint64_t left = 0; left < in_between; ++left) in.all.push_back(opened->make<target>());
      }
      for (page* const p : in.pages)
        for (std::uint64_t n = 0; n < 512; ++n) p->to[n] = in.all[n % target_count * (in_between + 1)];
    });
    opened->transact([&] {
      holding& in = root();
      for (std::uint64_t n = 0; n < target_count; ++n) in.all[n] = in.all[n * (in_between + 1)];
      in.all.resize(target_count);
    });
  }
  void expect_right() {
    const holding& in = root();
    for (const page* const p : in.pages)
      for (std::uint64_t n = 0; n < 512; ++n) {
        ASSERT_EQ(p->to[n], in.all[n % target_count]);
        ASSERT_EQ(p->to[n]->number, n % target_count);
      }
  }
};

TEST_F(evacuations_beside_aborts, find_what_is_put_back) {
  make_pages();
  std::uint64_t moved = 0;
  const std::uint64_t rounds = std::max<std::uint64_t>(rvm::testing::scaled(10), 10);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    make_new_targets();
    std::atomic<bool> is_choosing = false, is_aborting = false;
    std::thread aborting([&] {
      is_choosing.wait(false);
      transaction tx = opened->begin();
      for (blob* const b : root().blobs) std::ranges::fill(b->words, round + 1);
      for (page* const p : root().pages) std::ranges::fill(p->to, nullptr);
      is_aborting = true;
      is_aborting.notify_one();
      tx.abort();
    });
    const collect_report report = opened->collect({.roots = program_roots::handles,
                                                   .quarantine = quarantine::none,
                                                   .evacuation = {.enabled = true, .sparse_percent = 90},
                                                   .on_progress = [&](const rvm::progress& now) {
                                                     if (std::string_view(now.phase) != "choosing") return;
                                                     is_choosing = true;
                                                     is_choosing.notify_one();
                                                     is_aborting.wait(false);
                                                   }});
    aborting.join();
    moved += report.moved;
    ASSERT_NO_FATAL_FAILURE(expect_right());
  }
  EXPECT_GT(moved, rounds * target_count / 2);
  support::expect_sound(*opened);
}

}  // namespace aborts_beside_evacuation
