// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "tenure/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "os/os_test_support.hpp"
#include "os/system_error.hpp"

namespace tenure {
namespace {

TEST(error_codes, each_has_a_text_of_its_own) {
  std::set<std::string> texts;
  const int last = static_cast<int>(errc::in_doubt);
  for (int code = 1; code <= last; ++code) texts.insert(category().message(code));
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(last));
  EXPECT_FALSE(texts.contains("unknown error"));
  EXPECT_EQ(category().message(last + 1), "unknown error");
  EXPECT_STREQ(category().name(), "tenure");
}

TEST(error_codes, compare_with_what_was_thrown) {
  const error thrown(errc::damaged, "page 3 of x is damaged");
  EXPECT_EQ(thrown.code(), errc::damaged);
  EXPECT_NE(thrown.code(), errc::closed);
  EXPECT_EQ(&thrown.code().category(), &category());
  EXPECT_STREQ(thrown.what(), "page 3 of x is damaged");
  const std::system_error& base = thrown;
  EXPECT_STREQ(base.what(), "page 3 of x is damaged");
}

TEST(system_errors, keep_errno_and_say_what_why_and_what_to_do) {
  os::expect_error(std::errc::no_space_on_device,
                   {"cannot write 10 bytes at offset 20 of /x: ", "No space left on device", "; free some space"},
                   [] { os::throw_system_error(ENOSPC, "cannot write " + os::place(10, 20, "/x")); });
  const error plain = os::error_of([] { os::throw_system_error(ENOENT, "cannot open /x"); });
  EXPECT_EQ(plain.code().category(), std::generic_category());
  EXPECT_STREQ(plain.what(), "cannot open /x: No such file or directory");
  os::expect_error(std::errc::bad_file_descriptor, {"cannot x: Bad file descriptor; do y"},
                   [] { os::throw_system_error(EBADF, "cannot x", "do y"); });
}

TEST(system_errors, print_addresses_in_hexadecimal) {
  EXPECT_EQ(os::hexadecimal(os::free_address(1)), "0x551040000000");
  EXPECT_EQ(os::hexadecimal(nullptr), "0x0");
}

}  // namespace
}  // namespace tenure
