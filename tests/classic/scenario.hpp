// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The classic interface is one for the whole process, and ends for good: every scenario is a process of its own, which
// ends without any destructor, like a program that just exits.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include <rvm/rvm.h>
#include <rvm/rvm_segment.h>
#include <rvm/rvm_statistics.h>

#include "support/child_process.hpp"
#include "support/sanitizers.hpp"
#include "support/temp_dir.hpp"

namespace tenure::classic {

using support::contents_of;
using support::temp_dir;
using support::write_file;

// Runs f in a process of its own, whose failed expectations are this test's.
inline void in_process(const std::function<void()>& f) {
  support::run_and_die([&] {
    f();
    support::die();
  });
}

#define EXPECT_CODE(expected, call)                                             \
  do {                                                                          \
    const int got_code = (call);                                                \
    EXPECT_EQ((expected), got_code) << #call << " is " << rvm_return(got_code); \
  } while (false)
#define EXPECT_OK(call) EXPECT_CODE(RVM_SUCCESS, call)

constexpr unsigned long page = 4096;

// Addresses that no ordinary program uses, 16 GiB apart.
inline char* fixed_address(unsigned long which) {
  // ThreadSanitizer allows few ranges.
  constexpr unsigned long first = support::thread_sanitizer ? 0x550000000000 : 0x150000000000;
  return reinterpret_cast<char*>(first + (which << 34));
}

// Options that name a log. Strings live as long as the object.
struct options_for {
  std::string path;
  rvm_options_t options;
  explicit options_for(std::string log, rvm_length_t flags = 0) : path(std::move(log)) {
    rvm_init_options(&options);
    options.log_dev = path.data();
    options.flags = flags;
  }
  options_for(const options_for&) = delete;
  options_for& operator=(const options_for&) = delete;
  rvm_options_t* operator&() { return &options; }
};

inline rvm_region_t region_of(std::string& device, unsigned long offset = 0, unsigned long length = 0) {
  rvm_region_t region;
  rvm_init_region(&region);
  region.data_dev = device.data();
  region.offset = RVM_MK_OFFSET(0, offset);
  region.length = length;
  return region;
}

inline rvm_tid_t begun(rvm_mode_t mode = restore) {
  rvm_tid_t tid;
  rvm_init_tid(&tid);
  EXPECT_OK(rvm_begin_transaction(&tid, mode));
  return tid;
}

// A text at an address, in a transaction of its own.
inline void put(char* at, const std::string& text, rvm_mode_t how = flush) {
  rvm_tid_t tid = begun();
  EXPECT_OK(rvm_modify_bytes(&tid, at, text.data(), text.size()));
  EXPECT_OK(rvm_end_transaction(&tid, how));
}

// A directory with a log, and a segment of zeros.
class classic_test : public ::testing::Test {
 protected:
  temp_dir dir;
  std::string log = dir / "log", segment = dir / "segment";
  unsigned long segment_length = 16 * page;

  void SetUp() override {
    make_log(256 * 1024);
    write_file(segment, std::string(segment_length, '\0'));
  }
  void make_log(unsigned long length) const {
    in_process([&] {
      options_for options(log);
      rvm_offset_t size = RVM_MK_OFFSET(0, length);
      EXPECT_OK(rvm_create_log(&options, &size, 0600));
    });
  }
  // Initializes with the log and maps the segment.
  rvm_region_t open(rvm_length_t flags = 0) {
    options_for options(log, flags);
    EXPECT_OK(RVM_INIT(&options));
    rvm_region_t region = region_of(segment);
    EXPECT_OK(rvm_map(&region, nullptr));
    return region;
  }
  // What the next process finds.
  std::string recovered(unsigned long offset, unsigned long length) {
    support::child_process child([&] {
      const rvm_region_t region = open();
      std::fwrite(region.vmaddr + offset, 1, length, stdout);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    return child.wait().output;
  }
};

}  // namespace tenure::classic
