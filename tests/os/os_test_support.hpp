// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the tests of the os layer share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/file.hpp"
#include "os/virtual_memory.hpp"
#include "support/sanitizers.hpp"
#include "tenure/error.hpp"

namespace tenure::os {

// Addresses that are free in every build, also under ThreadSanitizer: 0x550000000000 to 0x555555554000.
inline void* free_address(std::uint64_t gib) { return reinterpret_cast<void*>(0x551000000000 + (gib << 30)); }

// A directory for one test, removed with everything in it.
class scratch_directory {
 public:
  scratch_directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tenure-os-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~scratch_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + '/' + std::string(name); }

 private:
  std::string path_;
};

// What the action throws; fails the test if it throws nothing.
inline error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const error& thrown) {
    return thrown;
  }
  ADD_FAILURE() << "nothing was thrown";
  return error(std::error_code(), "nothing was thrown");
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Expects that the action throws `code`, with a message that contains all of `parts`.
template <class Code>
void expect_error(Code code, std::initializer_list<std::string> parts, const std::function<void()>& action) {
  const error thrown = error_of(action);
  EXPECT_EQ(thrown.code(), code) << thrown.what();
  for (const std::string& part : parts)
    EXPECT_TRUE(contains(thrown.what(), part)) << thrown.what() << "\nlacks " << part;
}

inline const std::size_t page = page_size();

inline const_bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

inline std::string read_text(file& from, std::uint64_t offset, std::size_t length) {
  std::string text(length, '?');
  text.resize(from.read_at(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

// Runs `action` in a forked child. Returns its exit code, or minus the signal that ended it. The child does not return
// into the test: what it throws is exit code 99.
inline int in_child(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = action();
    } catch (const std::exception& thrown) {
      std::cerr << thrown.what() << std::endl;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// For EXPECT_EXIT: ended by the signal, or by a sanitizer in its place.
class ended_by {
 public:
  explicit ended_by(int signal) : signal_(signal) {}
  bool operator()(int status) const {
    if (WIFSIGNALED(status)) return WTERMSIG(status) == signal_;
    return support::sanitized && WIFEXITED(status) && WEXITSTATUS(status) != 0;
  }

 private:
  int signal_;
};

// For EXPECT_EXIT: matches texts that do not contain `part`.
class lacks {
 public:
  using is_gtest_matcher = void;
  explicit lacks(std::string part) : part_(std::move(part)) {}
  bool MatchAndExplain(const std::string& text, std::ostream*) const { return !contains(text, part_); }
  void DescribeTo(std::ostream* out) const { *out << "lacks " << part_; }
  void DescribeNegationTo(std::ostream* out) const { *out << "contains " << part_; }

 private:
  std::string part_;
};

// For EXPECT_EXIT: matches texts that contain every part.
class has {
 public:
  using is_gtest_matcher = void;
  explicit has(std::vector<std::string> parts) : parts_(std::move(parts)) {}
  bool MatchAndExplain(const std::string& text, std::ostream*) const {
    for (const std::string& part : parts_)
      if (!contains(text, part)) return false;
    return true;
  }
  void DescribeTo(std::ostream* out) const {
    for (const std::string& part : parts_) *out << "contains \"" << part << "\" ";
  }
  void DescribeNegationTo(std::ostream* out) const { *out << "lacks a part"; }

 private:
  std::vector<std::string> parts_;
};

}  // namespace tenure::os
