// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Names that no header declares, and that programs written for the original declare themselves. Nothing here uses them.
// They are weak: a program may bring its own.
#include <thread>

#include <rvm/rvm.h>

extern "C" {

// Coda's test programs switch it on.
[[gnu::weak]] rvm_bool_t rds_testsw = rvm_false;

// Where the original's macros for threads keep the last thread made (a pthread_t), and how the last one joined has ended.
[[gnu::weak]] std::thread::native_handle_type rvm_pthreadid = {};
[[gnu::weak]] void* rvm_ptstat = nullptr;
[[gnu::weak]] int rvm_join_res = 0;

}  // extern "C"
