// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A part of a test in a child process: to see how it ends, or to have it end without any destructor.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace tenure::support {

struct child_end {
  int status = 0;      // as waitpid gives it
  std::string output;  // stdout and stderr
  [[nodiscard]] bool exited_with(int code) const { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
};

// A child that has been forked and runs `f`. It ends with f's result as its exit code; no destructor runs.
class child_process {
 public:
  template <class F>
  explicit child_process(F&& f) {
    std::fflush(nullptr);
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    id_ = ::fork();
    if (id_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (id_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      int code = 125;
      try {
        code = std::forward<F>(f)();
      } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
      }
      std::fflush(nullptr);
      ::_exit(code);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~child_process() {
    if (id_ > 0) (void)wait();
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  child_end wait() {
    child_end result;
    char buffer[4096];
    for (ssize_t got; (got = ::read(output_, buffer, sizeof buffer)) != 0;) {
      if (got > 0)
        result.output.append(buffer, static_cast<std::size_t>(got));
      else if (errno != EINTR)
        break;
    }
    ::close(output_);
    while (::waitpid(id_, &result.status, 0) < 0 && errno == EINTR) {
    }
    id_ = 0;
    return result;
  }

 private:
  pid_t id_ = 0;
  int output_ = -1;
};

// Ends this process as if it had been killed: no destructor runs. The exit code says whether the test has failed here.
[[noreturn]] inline void die() {
  std::fflush(nullptr);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

// Runs f, which calls die(), in a child.
template <class F>
void run_and_die(F&& f) {
  child_process child([&] {
    f();
    std::printf("the child did not die\n");
    return 1;
  });
  const child_end end = child.wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output;
}

}  // namespace tenure::support
