// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Beginning and ending, options, logs: codes, and which comes first.
#include "classic/scenario.hpp"

#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

namespace tenure::classic {
namespace {

class classic_library : public classic_test {};

TEST_F(classic_library, nothing_works_before_initialization) {
  in_process([&] {
    rvm_tid_t tid;
    rvm_init_tid(&tid);
    rvm_region_t region = region_of(segment);
    options_for options(log);
    rvm_statistics_t statistics;
    rvm_init_statistics(&statistics);
    char byte = 0;
    EXPECT_CODE(RVM_EINIT, rvm_terminate());
    EXPECT_CODE(RVM_EINIT, rvm_set_options(nullptr));
    EXPECT_CODE(RVM_EINIT, rvm_query(nullptr, nullptr));
    EXPECT_CODE(RVM_EINIT, rvm_map(nullptr, nullptr));
    EXPECT_CODE(RVM_EINIT, rvm_map(&region, &options));
    EXPECT_CODE(RVM_EINIT, rvm_unmap(nullptr));
    EXPECT_CODE(RVM_EINIT, rvm_begin_transaction(nullptr, flush));
    EXPECT_CODE(RVM_EINIT, rvm_set_range(nullptr, &byte, 1));
    EXPECT_CODE(RVM_EINIT, rvm_modify_bytes(nullptr, &byte, &byte, 1));
    EXPECT_CODE(RVM_EINIT, rvm_abort_transaction(nullptr));
    EXPECT_CODE(RVM_EINIT, rvm_end_transaction(nullptr, restore));
    EXPECT_CODE(RVM_EINIT, rvm_flush());
    EXPECT_CODE(RVM_EINIT, rvm_truncate());
    EXPECT_CODE(RVM_EINIT, rvm_statistics("?", nullptr));
    EXPECT_CODE(RVM_EINIT, rvm_create_segment(nullptr, {0, 0}, nullptr, 0, nullptr));
    EXPECT_CODE(RVM_EINIT, rvm_load_segment(nullptr, {0, 0}, nullptr, nullptr, nullptr));
    EXPECT_CODE(RVM_EINIT, rvm_release_segment(0, nullptr));
  });
}

TEST_F(classic_library, needs_a_log_for_most) {
  in_process([&] {
    EXPECT_OK(RVM_INIT(nullptr));
    rvm_tid_t tid;
    rvm_init_tid(&tid);
    rvm_region_t region = region_of(segment);
    rvm_statistics_t statistics;
    rvm_init_statistics(&statistics);
    EXPECT_CODE(RVM_ELOG, rvm_begin_transaction(&tid, restore));
    EXPECT_CODE(RVM_ETID, rvm_begin_transaction(nullptr, flush));
    EXPECT_CODE(RVM_ELOG, rvm_map(&region, nullptr));
    EXPECT_CODE(RVM_ELOG, rvm_flush());
    EXPECT_CODE(RVM_ELOG, rvm_truncate());
    EXPECT_CODE(RVM_ELOG, RVM_STATISTICS(&statistics));
    rvm_options_t told;
    rvm_init_options(&told);
    EXPECT_OK(rvm_query(&told, nullptr));
    EXPECT_EQ(told.log_empty, rvm_true);
    EXPECT_OK(rvm_terminate());
  });
}

TEST_F(classic_library, initialization) {
  in_process([&] {
    options_for options(log);
    EXPECT_CODE(RVM_EVERSION_SKEW, rvm_initialize("RVM Interface Version 1.2", &options));
    EXPECT_CODE(RVM_EVERSION_SKEW, rvm_initialize(nullptr, &options));
    rvm_options_t wrong;
    std::memset(&wrong, 0, sizeof wrong);
    EXPECT_CODE(RVM_EOPTIONS, RVM_INIT(&wrong));
    options_for missing(dir / "none");
    EXPECT_CODE(RVM_EIO, RVM_INIT(&missing));
    options_for long_name(std::string(MAXPATHLEN, 'x'));
    EXPECT_CODE(RVM_ENAME_TOO_LONG, RVM_INIT(&long_name));
    write_file(dir / "text", std::string(100'000, 'x'));
    options_for no_log(dir / "text");
    EXPECT_CODE(RVM_ELOG, RVM_INIT(&no_log));
    // None of these was a beginning.
    EXPECT_CODE(RVM_EINIT, rvm_flush());
    EXPECT_OK(RVM_INIT(&options));
    EXPECT_OK(RVM_INIT(&options));  // again is nothing
    EXPECT_OK(rvm_initialize("whatever", &wrong));
    EXPECT_OK(rvm_terminate());
    EXPECT_OK(rvm_terminate());
    EXPECT_CODE(RVM_EINIT, RVM_INIT(&options));
    EXPECT_CODE(RVM_EINIT, rvm_flush());
  });
}

TEST_F(classic_library, terminate_with_open_transactions) {
  in_process([&] {
    const rvm_region_t region = open();
    rvm_tid_t tid = begun();
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr, "open", 4));
    EXPECT_CODE(RVM_EUNCOMMIT, rvm_terminate());
    EXPECT_OK(rvm_end_transaction(&tid, no_flush));
    EXPECT_OK(rvm_terminate());
    EXPECT_CODE(RVM_EINIT, rvm_begin_transaction(&tid, restore));
  });
  EXPECT_EQ(contents_of(segment).substr(0, 4), "open");  // terminate truncates
}

TEST_F(classic_library, create_log) {
  in_process([&] {
    rvm_offset_t size = RVM_MK_OFFSET(0, 4096 + 100);
    rvm_offset_t huge = RVM_MK_OFFSET(1, 0);
    options_for options(dir / "new");
    EXPECT_CODE(RVM_EOPTIONS, rvm_create_log(nullptr, &size, 0600));
    EXPECT_CODE(RVM_EOPTIONS, rvm_create_log(&options, nullptr, 0600));
    rvm_options_t nameless;
    rvm_init_options(&nameless);
    EXPECT_CODE(RVM_EOPTIONS, rvm_create_log(&nameless, &size, 0600));
    options_for long_name(std::string(MAXPATHLEN, 'x'));
    EXPECT_CODE(RVM_ENAME_TOO_LONG, rvm_create_log(&long_name, &size, 0600));
    EXPECT_CODE(RVM_ETOO_BIG, rvm_create_log(&options, &huge, 0600));
    options_for nowhere(dir / "none/log");
    EXPECT_CODE(RVM_EIO, rvm_create_log(&nowhere, &size, 0600));
    EXPECT_OK(rvm_create_log(&options, &size, 0640));  // too small: rounded up
    EXPECT_CODE(RVM_ELOG, rvm_create_log(&options, &size, 0600));
    struct stat status;
    ASSERT_EQ(::stat((dir / "new").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0640u);
    // After RVM_INIT(NULL), rvm_set_options opens it.
    EXPECT_OK(RVM_INIT(nullptr));
    EXPECT_OK(rvm_set_options(&options));
    EXPECT_OK(rvm_flush());
    EXPECT_OK(rvm_terminate());
  });
}

TEST_F(classic_library, create_log_after_initialization) {
  in_process([&] {
    EXPECT_OK(RVM_INIT(nullptr));
    options_for options(dir / "new");
    rvm_offset_t size = RVM_LENGTH_TO_OFFSET(65536);
    EXPECT_OK(rvm_create_log(&options, &size, 0600));
    EXPECT_OK(rvm_set_options(&options));
    rvm_region_t region = region_of(segment);
    EXPECT_OK(rvm_map(&region, nullptr));
    put(region.vmaddr, "made");
  });
  log = dir / "new";
  EXPECT_EQ(recovered(0, 4), "made");
}

TEST_F(classic_library, create_log_file) {
  for (int run = 0; run < 2; ++run)
    in_process([&] {
      options_for options(dir / "new");
      options.options.create_log_file = rvm_true;
      options.options.create_log_size = RVM_MK_OFFSET(0, 100'000);
      options.options.create_log_mode = 0600;
      EXPECT_OK(RVM_INIT(&options));
      rvm_region_t region = region_of(segment);
      EXPECT_OK(rvm_map(&region, nullptr));
      EXPECT_EQ(region.vmaddr[0], run == 0 ? '\0' : 'x');
      put(region.vmaddr, "x");
    });
  in_process([&] {
    rvm_options_t nameless;
    rvm_init_options(&nameless);
    nameless.create_log_file = rvm_true;
    EXPECT_CODE(RVM_EOPTIONS, RVM_INIT(&nameless));
  });
}

TEST_F(classic_library, set_options) {
  in_process([&] {
    const rvm_region_t region = open();
    EXPECT_CODE(RVM_EOPTIONS, rvm_set_options(nullptr));
    rvm_options_t wrong;
    std::memset(&wrong, 0, sizeof wrong);
    EXPECT_CODE(RVM_EOPTIONS, rvm_set_options(&wrong));
    options_for another(dir / "another");
    EXPECT_CODE(RVM_ELOG, rvm_set_options(&another));
    options_for long_name(std::string(MAXPATHLEN, 'x'));
    EXPECT_CODE(RVM_ENAME_TOO_LONG, rvm_set_options(&long_name));

    rvm_options_t options;
    rvm_init_options(&options);
    EXPECT_EQ(options.truncate, 50);
    EXPECT_EQ(options.recovery_buf_len, 256u * 1024);
    EXPECT_EQ(options.flush_buf_len, 256u * 1024);
    EXPECT_EQ(options.max_read_len, 512u * 1024);
    EXPECT_EQ(options.create_log_mode, 0600);
    options.truncate = 70;
    options.recovery_buf_len = options.flush_buf_len = options.max_read_len = 1;
    options.flags = RVM_COALESCE_TRANS;
    EXPECT_OK(rvm_set_options(&options));  // without a name: the log stays
    put(region.vmaddr, "on");

    std::string name(MAXPATHLEN, '?');
    rvm_options_t told;
    rvm_init_options(&told);
    told.log_dev = name.data();
    EXPECT_OK(rvm_query(&told, nullptr));
    EXPECT_STREQ(told.log_dev, log.c_str());
    EXPECT_EQ(told.log_dev, name.data());
    EXPECT_EQ(told.truncate, 70);
    EXPECT_EQ(told.recovery_buf_len, 64u * 1024);
    EXPECT_EQ(told.flush_buf_len, 64u * 1024);
    EXPECT_EQ(told.max_read_len, 512u * 1024);
    EXPECT_EQ(told.flags, static_cast<unsigned long>(RVM_ALL_OPTIMIZATIONS));
    EXPECT_EQ(told.log_empty, rvm_false);
    EXPECT_EQ(told.n_uncommit, 0);
    EXPECT_EQ(told.tid_array, nullptr);
    for (const long percent : {-1L, 0L, 1L, 100L, 101L}) {
      options.truncate = percent;
      EXPECT_OK(rvm_set_options(&options));
      put(region.vmaddr, "still");
    }
    EXPECT_OK(rvm_truncate());
    told.log_dev = nullptr;
    EXPECT_OK(rvm_query(&told, nullptr));
    EXPECT_EQ(told.log_empty, rvm_true);
  });
}

TEST_F(classic_library, query_of_open_transactions) {
  in_process([&] {
    std::string other_file = dir / "other";
    write_file(other_file, std::string(page, '\0'));
    rvm_region_t region = open(), other = region_of(other_file);
    EXPECT_OK(rvm_map(&other, nullptr));
    rvm_options_t told;
    rvm_init_options(&told);
    EXPECT_CODE(RVM_EOPTIONS, rvm_query(nullptr, nullptr));
    rvm_region_t wrong;
    std::memset(&wrong, 0, sizeof wrong);
    EXPECT_CODE(RVM_EREGION, rvm_query(&told, &wrong));
    rvm_region_t unmapped = region_of(segment);
    EXPECT_CODE(RVM_ENOT_MAPPED, rvm_query(&told, &unmapped));

    rvm_tid_t here = begun(), there = begun(no_restore), nowhere = begun();
    EXPECT_OK(rvm_set_range(&here, region.vmaddr, 8));
    EXPECT_OK(rvm_set_range(&there, other.vmaddr, 8));
    EXPECT_OK(rvm_query(&told, nullptr));
    EXPECT_EQ(told.n_uncommit, 3);
    EXPECT_OK(rvm_query(&told, &region));
    ASSERT_EQ(told.n_uncommit, 1);
    EXPECT_EQ(told.tid_array[0].uname.tv_sec, here.uname.tv_sec);
    EXPECT_EQ(told.tid_array[0].uname.tv_usec, here.uname.tv_usec);
    // What it tells can be used: a way to end what others have begun.
    EXPECT_OK(rvm_abort_transaction(&told.tid_array[0]));
    EXPECT_CODE(RVM_ETID, rvm_abort_transaction(&here));
    EXPECT_OK(rvm_query(&told, &other));
    EXPECT_EQ(told.n_uncommit, 1);
    EXPECT_OK(rvm_abort_transaction(&there));
    EXPECT_OK(rvm_abort_transaction(&nowhere));
    EXPECT_OK(rvm_query(&told, nullptr));
    EXPECT_EQ(told.n_uncommit, 0);
    rvm_free_options(&told);
  });
}

TEST_F(classic_library, exit_without_terminate_leaves_a_recoverable_log) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "durable");
    rvm_tid_t tid = begun();
    EXPECT_OK(rvm_modify_bytes(&tid, region.vmaddr + 100, "open", 4));
  });
  EXPECT_EQ(recovered(0, 7), "durable");
  EXPECT_EQ(recovered(100, 4), std::string(4, '\0'));
}

// exit() runs destructors and ends threads that the library has; the child's output must be empty.
TEST_F(classic_library, exit_is_quiet) {
  support::child_process child([&]() -> int {
    const rvm_region_t region = open();
    put(region.vmaddr, "durable");
    put(region.vmaddr + 8, "lazy", no_flush);
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  const support::child_end end = child.wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output;
  EXPECT_EQ(end.output, "");
  EXPECT_EQ(recovered(0, 7), "durable");
}

TEST_F(classic_library, child_of_a_fork) {
  in_process([&] {
    const rvm_region_t region = open();
    put(region.vmaddr, "mine");
    support::child_process child([&] {
      rvm_tid_t tid;
      rvm_init_tid(&tid);
      EXPECT_CODE(RVM_EINIT, rvm_begin_transaction(&tid, restore));
      EXPECT_CODE(RVM_EINIT, rvm_flush());
      rvm_options_t options;
      rvm_init_options(&options);
      EXPECT_CODE(RVM_EINIT, rvm_initialize(RVM_VERSION, &options));
      EXPECT_CODE(RVM_EINIT, rvm_initialize(RVM_VERSION, nullptr));
      EXPECT_CODE(RVM_EINIT, rvm_terminate());
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    const support::child_end end = child.wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output;
    put(region.vmaddr, "mine");
    EXPECT_OK(rvm_terminate());
  });
}

TEST(classic_names, codes_modes_types) {
  EXPECT_STREQ(rvm_return(RVM_SUCCESS), "RVM_SUCCESS");
  EXPECT_STREQ(rvm_return(RVM_EVM_OVERLAP), "RVM_EVM_OVERLAP");
  EXPECT_STREQ(rvm_return(203), "Invalid RVM return code");
  EXPECT_STREQ(rvm_return(-5), "Invalid RVM return code");
  for (int code = RVM_EINIT; code <= RVM_EVM_OVERLAP; ++code)
    EXPECT_EQ(std::string(rvm_return(code)).starts_with("RVM_E"), code != 203) << code;
  EXPECT_STREQ(rvm_mode(restore), "restore");
  EXPECT_STREQ(rvm_mode(no_flush), "no_flush");
  EXPECT_TRUE(std::string(rvm_mode(static_cast<rvm_mode_t>(1))).starts_with("Invalid"));
  EXPECT_STREQ(rvm_type(rvm_tid_id), "rvm_tid_id");
  EXPECT_TRUE(std::string(rvm_type(static_cast<rvm_struct_id_t>(1))).starts_with("Invalid"));
}

}  // namespace
}  // namespace tenure::classic
