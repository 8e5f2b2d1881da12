// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <string>

#include "os/system_error.hpp"

namespace tenure::os {
namespace {

std::atomic<std::uint32_t> forks{0};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);  // the fault handler reads it

void count_fork() { forks.fetch_add(1, std::memory_order_relaxed); }

// Runs before main, so the handler is installed before the program can make an object of this library. If a static
// object of the program forks even earlier, that fork is not counted. No object of ours exists then.
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, count_fork);

}  // namespace

std::uint32_t fork_generation() noexcept { return forks.load(std::memory_order_relaxed); }

int around_forks(void (*before)(), void (*after)()) noexcept { return pthread_atfork(before, after, after); }

std::int64_t wall_clock_ns() noexcept {
  // The coarse clock, because every commit reads it, and milliseconds are enough for people.
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string utc_text(std::int64_t ns) {
  constexpr std::int64_t second = 1'000'000'000;
  std::int64_t seconds = ns / second, rest = ns % second;
  if (rest < 0) --seconds, rest += second;
  const std::time_t whole = seconds;
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  const std::string fraction = std::to_string(rest);
  return std::string(text, length) + "." + std::string(9 - fraction.size(), '0') + fraction + " UTC";
}

void random_bytes(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = getrandom(into.data(), into.size(), 0);
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      throw_system_error(errno, "cannot get random bytes from the kernel");
    }
  }
}

std::string path_behind_links(const std::string& path) {
  std::error_code failure;
  const std::filesystem::path found = std::filesystem::weakly_canonical(absolute_path(path), failure);
  return failure ? absolute_path(path) : found.string();
}

std::string absolute_path(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) throw_system_error(ENOENT, "cannot use an empty path");
  std::error_code failure;
  const fs::path start = fs::absolute(path, failure);
  if (failure) throw_system_error(failure.value(), "cannot make the path " + path + " absolute");

  fs::path result = start.root_path();
  for (const fs::path& part : start.relative_path()) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      result /= part;
      continue;
    }
    // "x/.." can be removed unless x is a symbolic link. Then it is the directory that holds x's target, and it stays.
    const fs::path last = result.filename();
    if (last == ".." || fs::is_symlink(fs::symlink_status(result, failure))) {
      result /= part;
    } else {
      result = result.parent_path();
    }
  }
  return result.string();
}

void survive_large_files() noexcept { ::signal(SIGXFSZ, SIG_IGN); }

void keep_standard_streams_apart() noexcept {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

std::string program_name() { return ::program_invocation_short_name; }

}  // namespace tenure::os
