// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/process_copy.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string>

#include "os/system_error.hpp"

namespace tenure::os {
namespace {

// In the copy. It has the program's handlers, which are not to run here.
[[noreturn]] void run_copy(void (*f)(void*), void* of, pid_t parent) noexcept {
  // First, since locks of files last as long as these are open, also when the program has been killed.
#ifdef SYS_close_range
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
#endif
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::syscall(SYS_exit_group, 1);  // it was killed before
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) ::signal(fault, SIG_DFL);
  constexpr rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);  // a crash of the copy is no crash of the program
  f(of);
  for (;;) ::syscall(SYS_exit_group, 0);
}

}  // namespace

bool process_copy::start(void (*f)(void*), void* of) noexcept {
  sigset_t all, before;
  ::sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // what is sent to the process group is not for the copy
  const pid_t self = ::getpid();
  const long child = ::syscall(SYS_clone, 0UL, nullptr, nullptr, nullptr, 0UL);
  if (child == 0) run_copy(f, of, self);
  error_ = child < 0 ? errno : 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  process_ = child < 0 ? 0 : static_cast<int>(child);
  return child > 0;
}

bool process_copy::wait(int seconds) noexcept {
  constexpr long look_every_ns = 100'000;
  timespec pause{0, look_every_ns};
  for (long long waited = 0; process_ != 0 && waited < seconds * 1'000'000'000LL; waited += pause.tv_nsec) {
    int status = 0;
    const pid_t got = ::waitpid(process_, &status, WNOHANG | __WALL);
    if (got == process_) {
      process_ = 0;
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (got < 0 && errno != EINTR) {  // somebody else has waited for it
      process_ = 0;
      return false;
    }
    if (waited > 100 * look_every_ns) pause.tv_nsec = 10 * look_every_ns;
    ::nanosleep(&pause, nullptr);
  }
  return false;
}

void process_copy::end() noexcept {
  if (process_ == 0) return;
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  process_ = 0;
}

shared_memory::shared_memory(std::size_t length) {
  if (length == 0) return;
  void* const got = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) throw_system_error(errno, "cannot get " + std::to_string(length) + " bytes of shared memory");
  at_ = static_cast<std::byte*>(got);
  length_ = length;
}

shared_memory::~shared_memory() {
  if (at_ != nullptr) ::munmap(at_, length_);
}

}  // namespace tenure::os
