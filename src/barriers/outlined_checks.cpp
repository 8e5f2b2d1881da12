// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What compilers call before each store in the outlined form, and in both forms before those whose length they do not know.
#include "barriers/linked.hpp"
#include "barriers/watched.hpp"

using tenure::barriers::before_store;

#pragma GCC visibility push(default)
extern "C" {

void __asan_store1_noabort(void* at) { before_store(at, 1); }
void __asan_store2_noabort(void* at) { before_store(at, 2); }
void __asan_store4_noabort(void* at) { before_store(at, 4); }
void __asan_store8_noabort(void* at) { before_store(at, 8); }
void __asan_store16_noabort(void* at) { before_store(at, 16); }
void __asan_storeN_noabort(void* at, std::size_t length) { before_store(at, length); }

// Loads are not asked for; some come all the same.
void __asan_load1_noabort(void*) {}
void __asan_load2_noabort(void*) {}
void __asan_load4_noabort(void*) {}
void __asan_load8_noabort(void*) {}
void __asan_load16_noabort(void*) {}
void __asan_loadN_noabort(void*, std::size_t) {}

void __asan_handle_no_return() {}
void __asan_before_dynamic_init(const char*) {}
void __asan_after_dynamic_init() {}
void __asan_poison_stack_memory(void*, std::size_t) {}
void __asan_unpoison_stack_memory(void*, std::size_t) {}
void __asan_alloca_poison(void*, std::size_t) {}
void __asan_allocas_unpoison(void*, void*) {}

// The option -u in our link flags asks for it: all members of the archive come into the program that take the place of
// something that a shared library has, too.
void tenure_barriers() {
  tenure::barriers::link_memory_writers();
  tenure::barriers::link_string_writers();
  tenure::barriers::link_text_writers();
  tenure::barriers::link_wide_writers();
  tenure::barriers::link_input_writers();
  tenure::barriers::link_standard_lists();
  tenure::barriers::link_standard_trees();
}

}  // extern "C"
#pragma GCC visibility pop
