// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What compilers call in the inline form, where the shadow is not zero.
#include "barriers/linked.hpp"
#include "barriers/watched.hpp"

using tenure::barriers::before_store;

#pragma GCC visibility push(default)
extern "C" {

void __asan_report_store1_noabort(void* at) { before_store(at, 1); }
void __asan_report_store2_noabort(void* at) { before_store(at, 2); }
void __asan_report_store4_noabort(void* at) { before_store(at, 4); }
void __asan_report_store8_noabort(void* at) { before_store(at, 8); }
void __asan_report_store16_noabort(void* at) { before_store(at, 16); }
void __asan_report_store_n_noabort(void* at, std::size_t length) { before_store(at, length); }

void __asan_report_load1_noabort(void*) {}
void __asan_report_load2_noabort(void*) {}
void __asan_report_load4_noabort(void*) {}
void __asan_report_load8_noabort(void*) {}
void __asan_report_load16_noabort(void*) {}
void __asan_report_load_n_noabort(void*, std::size_t) {}

void tenure_barriers();
// As tenure_barriers() (outlined_checks.cpp), of programs of the inline form: with the shadow.
void tenure_barriers_inline() {
  tenure_barriers();
  tenure::barriers::link_shadow();
}

}  // extern "C"
#pragma GCC visibility pop
