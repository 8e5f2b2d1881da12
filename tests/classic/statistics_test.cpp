// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvm_statistics: of this process, over the log's life, and printed.
#include "classic/scenario.hpp"

#include <memory>
#include <numeric>

namespace tenure::classic {
namespace {

class classic_statistics : public classic_test {
 protected:
  static rvm_statistics_t now() {
    rvm_statistics_t s;
    rvm_init_statistics(&s);
    EXPECT_OK(RVM_STATISTICS(&s));
    return s;
  }
};

TEST_F(classic_statistics, codes) {
  in_process([&] {
    rvm_statistics_t statistics;
    rvm_init_statistics(&statistics);
    open();
    EXPECT_CODE(RVM_ESTAT_VERSION_SKEW, rvm_statistics("RVM Statistics Version 1.0", &statistics));
    EXPECT_CODE(RVM_ESTAT_VERSION_SKEW, rvm_statistics(nullptr, nullptr));
    EXPECT_CODE(RVM_ESTATISTICS, RVM_STATISTICS(nullptr));
    rvm_statistics_t wrong;
    std::memset(&wrong, 0, sizeof wrong);
    EXPECT_CODE(RVM_ESTATISTICS, RVM_STATISTICS(&wrong));
    EXPECT_CODE(RVM_ESTATISTICS, rvm_print_statistics(&wrong, stdout));
    EXPECT_CODE(RVM_ESTATISTICS, rvm_print_statistics(nullptr, stdout));
    EXPECT_CODE(RVM_EIO, rvm_print_statistics(&statistics, nullptr));
  });
}

TEST_F(classic_statistics, of_this_process) {
  in_process([&] {
    const rvm_region_t region = open();
    EXPECT_EQ(now().n_flush_commit, 0u);
    put(region.vmaddr, "flush");
    for (int i = 0; i < 3; ++i) put(region.vmaddr, "lazy", no_flush);
    rvm_statistics_t s = now();
    EXPECT_EQ(s.n_no_flush, 1u);
    EXPECT_GT(s.no_flush_length.low, 0u);
    EXPECT_OK(rvm_flush());
    for (const rvm_mode_t mode : {restore, no_restore}) {
      rvm_tid_t tid = begun(mode);
      EXPECT_OK(rvm_abort_transaction(&tid));
    }
    rvm_tid_t tid = begun();
    for (int i = 0; i < 4; ++i) EXPECT_OK(rvm_set_range(&tid, region.vmaddr, 1000));
    EXPECT_EQ(now().n_uncommit, 1u);
    EXPECT_OK(rvm_end_transaction(&tid, flush));
    EXPECT_OK(rvm_truncate());
    s = now();
    EXPECT_EQ(s.n_flush_commit, 2u);
    EXPECT_EQ(s.n_no_flush_commit, 3u);
    EXPECT_EQ(s.n_abort, 2u);
    EXPECT_EQ(s.n_uncommit, 0u);
    EXPECT_EQ(s.n_no_flush, 0u);
    EXPECT_EQ(s.n_rvm_flush, 1u);
    EXPECT_GE(s.n_flush, 3u);
    EXPECT_GT(s.log_written.low, 1000u);
    EXPECT_EQ(s.n_trans_elim, 2u);
    EXPECT_EQ(s.n_range_elim, 3u);
    EXPECT_EQ(s.range_overlap.low, 3000u);
    EXPECT_EQ(s.log_dev_cur, 0u);
    EXPECT_EQ(s.range_lengths[0], 4u);  // "flush", "lazy"
    EXPECT_EQ(s.range_lengths[6], 4u);  // 1000 bytes
    // Two flush commits and one rvm_flush.
    EXPECT_EQ(std::accumulate(s.flush_times, s.flush_times + flush_times_len, 0ul), 3u);
    EXPECT_EQ(std::accumulate(s.tot_truncation_times, s.tot_truncation_times + truncation_times_len, 0ul), 1u);
    EXPECT_EQ(s.tot_rvm_truncate, 1u);
    EXPECT_EQ(s.tot_recovery, 0u);
  });
}

TEST_F(classic_statistics, over_the_life_of_the_log) {
  const auto one_of_each = [&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "a");
    put(region.vmaddr, "b", no_flush);
    rvm_tid_t tid = begun();
    EXPECT_OK(rvm_abort_transaction(&tid));
    EXPECT_OK(rvm_flush());
    EXPECT_OK(rvm_truncate());
  };
  for (int run = 0; run < 3; ++run)
    in_process([&] {
      one_of_each();
      EXPECT_OK(rvm_terminate());
    });
  in_process([&] {  // a crash: what it counted is lost, the recovery is counted
    const rvm_region_t region = open();
    put(region.vmaddr, "crash");
  });
  in_process([&] {
    one_of_each();
    const rvm_statistics_t s = now();
    EXPECT_EQ(s.n_flush_commit, 1u);
    EXPECT_EQ(s.tot_flush_commit, 4u);
    EXPECT_EQ(s.tot_no_flush_commit, 4u);
    EXPECT_EQ(s.tot_abort, 4u);
    EXPECT_EQ(s.tot_rvm_flush, 4u);
    EXPECT_EQ(s.tot_rvm_truncate, 4u);
    EXPECT_EQ(s.tot_recovery, 1u);
    EXPECT_GE(s.tot_flush, 8u);
    EXPECT_GT(s.tot_log_written.low, s.log_written.low);
    EXPECT_GT(s.tot_async_truncation, 0u);
    const auto us = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
    EXPECT_GE(us(s.tot_flush_time), us(s.flush_time));
    EXPECT_GT(us(s.tot_truncation_time), 0);
  });
}

TEST_F(classic_statistics, printed) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "a");
    rvm_statistics_t s = now();
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), &std::fclose);
    EXPECT_OK(rvm_print_statistics(&s, out.get()));
    std::string text(static_cast<std::size_t>(std::ftell(out.get())), '\0');
    std::rewind(out.get());
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), out.get()), text.size());
    EXPECT_NE(text.find("committed, flush"), std::string::npos) << text;
    EXPECT_NE(text.find("ranges declared by bytes"), std::string::npos);
  });
}

TEST(classic_descriptors, copies_and_frees) {
  rvm_statistics_t* const s = rvm_malloc_statistics();
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(s->struct_id, rvm_statistics_id);
  EXPECT_EQ(s->from_heap, rvm_true);
  s->n_abort = 7;
  rvm_statistics_t* const copy = rvm_copy_statistics(s);
  EXPECT_EQ(copy->n_abort, 7u);
  rvm_free_statistics(s);
  rvm_free_statistics(copy);

  rvm_region_t local;
  rvm_init_region(&local);
  local.length = 5;
  rvm_free_region(&local);  // ignored
  EXPECT_EQ(local.length, 5u);
  EXPECT_EQ(local.from_heap, rvm_false);
  rvm_region_t* const region = rvm_copy_region(&local);
  EXPECT_EQ(region->length, 5u);
  EXPECT_EQ(region->from_heap, rvm_true);
  rvm_free_region(region);

  rvm_options_t* const options = rvm_malloc_options();
  EXPECT_EQ(options->truncate, TRUNCATE);
  rvm_options_t* const other = rvm_copy_options(options);
  rvm_free_options(options);
  rvm_free_options(other);
  // What is no descriptor is not copied, and nothing happens to NULL.
  std::memset(&local, 0, sizeof local);
  EXPECT_EQ(rvm_copy_region(&local), nullptr);
  EXPECT_EQ(rvm_copy_tid(nullptr), nullptr);
  rvm_free_region(nullptr);
  rvm_free_options(nullptr);
  rvm_free_tid(nullptr);
  rvm_free_statistics(nullptr);
  rvm_init_tid(nullptr);
}

}  // namespace
}  // namespace tenure::classic
