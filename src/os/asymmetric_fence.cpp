// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/asymmetric_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/sanitizers.hpp"

namespace tenure::os {

namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

// Asks the kernel, once. It may lack the call, or a filter of system calls may forbid it.
void ask() noexcept {
  static const bool possible = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
                               membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0 &&
                               (fences::asymmetric.store(true, std::memory_order_seq_cst), true);
  (void)possible;
}

// Before this line has run, light fences are full fences. Heavy fences ask again, so both kinds agree at any time.
const bool asked = (ask(), true);

}  // namespace

// Constant initialization: a program's own constructors may come first.
constinit std::atomic<bool> fences::asymmetric{false};

void fences::full() noexcept {
#if TENURE_THREAD_SANITIZER && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"  // it sees no fences; callers order their data by acquire and release besides
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool heavy_fence() noexcept {
  (void)asked;
  ask();
  if (!fences::asymmetric.load(std::memory_order_seq_cst)) {
    fences::full();
    return true;
  }
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return true;
  fences::asymmetric.store(false, std::memory_order_seq_cst);
  return false;
}

}  // namespace tenure::os
