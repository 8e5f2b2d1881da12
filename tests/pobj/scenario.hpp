// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Executions of a program, one after the other in this process, with a store on a simulated disk.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>

#include <tenure/pobj.h>

#include "pobj/store.hpp"
#include "sim/disk.hpp"
#include "support/sanitizers.hpp"

namespace tenure::pobj {

#define EXPECT_OK(call) EXPECT_EQ(POBJ_OK, (call)) << pobj_error()
#define ASSERT_OK(call) ASSERT_EQ(POBJ_OK, (call)) << pobj_error()

// The call has failed with this code, and its message names all parts. Prints the message.
inline void expect_failure(int expected, int code, std::initializer_list<std::string> parts) {
  const std::string message = pobj_error();
  std::printf("    error: %s\n", message.c_str());
  EXPECT_EQ(expected, code) << message;
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << '"' << part << "\" is not in: " << message;
}

struct node {
  node* next;
  std::uint64_t value;
};
inline constexpr std::size_t node_references[] = {offsetof(node, next), POBJ_END};

inline node* new_node(std::uint64_t value, node* next = nullptr) {
  auto* const n = static_cast<node*>(pobj_malloc(sizeof(node)));
  EXPECT_NE(n, nullptr) << pobj_error();
  EXPECT_OK(pobj_ref_typify(n, node_references));
  *n = {next, value};
  EXPECT_OK(pobj_update(n));
  return n;
}

inline constexpr pobj_allocator libc = {&std::malloc, &std::calloc, &std::free};

// A memory manager that gives so many bytes, and no more.
inline std::size_t granted = SIZE_MAX;
inline void* grant(std::size_t size) {
  if (size > granted) return nullptr;
  granted -= size;
  return std::malloc(size);
}
inline constexpr pobj_allocator bounded = {&grant, nullptr, &std::free};

inline pobj_options small_options(unsigned flags = 0) {
  pobj_options o = {};
  if (support::address_sanitizer) o.objects = libc;  // whose blocks it watches, as it cannot those of the pool
  o.path = "/store";
  o.program = "test";
  o.flags = flags;
  o.initial_size = 256 << 10;
  o.max_size = 256 << 20;
  o.log_size = 512 << 10;
  return o;
}

class pobj_test : public ::testing::Test {
 protected:
  pobj_test() { use(std::make_unique<sim::disk>()); }
  ~pobj_test() override {
    test_hooks::crash();
    test_hooks::disk = nullptr;
    test_hooks::background = true;
  }

  void use(std::unique_ptr<sim::disk> next) {
    test_hooks::crash();
    disk = std::move(next);
    test_hooks::disk = disk.get();
    test_hooks::background = false;
  }
  void start(unsigned flags = 0) {
    const pobj_options o = small_options(flags);
    ASSERT_OK(pobj_init_with(&o));
  }
  // The next execution: after a clean end of this one, or after the power has failed.
  void restart(unsigned flags = 0) {
    ASSERT_OK(pobj_close());
    start(flags);
  }
  void crash_and_restart(unsigned flags = 0) {
    use(disk->crash(1, sim::policy::drop_all));
    start(flags);
  }
  [[nodiscard]] static pobj_report report() {
    pobj_report r = {};
    EXPECT_OK(pobj_get_report(&r));
    return r;
  }

  std::unique_ptr<sim::disk> disk;
};

}  // namespace tenure::pobj
