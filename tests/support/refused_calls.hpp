// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// System calls that fail as if the kernel lacked or refused them.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <thread>
#include <vector>

namespace tenure::support {

// From now on these system calls fail in this thread. False if that is not possible.
inline bool refuse_calls(std::initializer_list<long> calls, unsigned code) {
  std::vector<sock_filter> program;
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const long call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Runs the action in a thread in which they fail. False if that is not possible.
inline bool without_calls(std::initializer_list<long> calls, unsigned code, const std::function<void()>& action) {
  bool refused = false;
  std::thread([&] {
    refused = refuse_calls(calls, code);
    if (refused) action();
  }).join();
  return refused;
}

}  // namespace tenure::support
