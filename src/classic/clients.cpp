// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Names that no header declares. Programs that were written for the original declare them. Nothing in this library uses
// them. They are weak, so a program may define them itself.
#include <thread>

#include <rvm/rvm.h>

extern "C" {

// Coda's test programs set it to true.
[[gnu::weak]] rvm_bool_t rds_testsw = rvm_false;

// The original's macros for threads store in these three the last thread that was made (a pthread_t), and how the last
// thread that was joined has ended.
[[gnu::weak]] std::thread::native_handle_type rvm_pthreadid = {};
[[gnu::weak]] void* rvm_ptstat = nullptr;
[[gnu::weak]] int rvm_join_res = 0;

}  // extern "C"
