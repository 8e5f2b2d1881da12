// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A program that has replaced the global operators new and delete with ones that call rds_malloc and rds_free: objects
// that are made while the heap is loaded are recoverable. The library must never call them: it would come back to itself
// with its locks held [classic.own-operators].
//
//     replaced_operators DIRECTORY
//
// makes a log and a heap in the directory, and loads the heap. Fails as soon as an operator is called by the library.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <rvm/rds.h>
#include <rvm/rvm_statistics.h>

namespace {

[[noreturn]] void fail(const char* what, int code = 0) {
  std::fprintf(stderr, "%s (%d)\n", what, code);
  std::_Exit(1);
}

// Threads of the program say so; the library's own do not.
thread_local bool is_the_programs = false;
thread_local int inside = 0;  // calls of the library
std::atomic<bool> loaded = false;
std::atomic<unsigned long> from_heap = 0;
char* heap_begin = nullptr;
char* heap_end = nullptr;

// Runs a call of the library.
template <class F>
auto in_library(F&& f) {
  ++inside;
  auto result = f();
  --inside;
  return result;
}
#define CHECK_OK(call)                                                   \
  do {                                                                   \
    const int code = in_library([&] { return static_cast<int>(call); }); \
    if (code != RVM_SUCCESS) fail(#call, code);                          \
  } while (false)

void require_the_program() {
  if (loaded && !is_the_programs) fail("a thread of the library calls an operator of the program");
  if (inside != 0) fail("the library calls an operator of the program");
}

void* allocate(std::size_t size) {
  require_the_program();
  if (!loaded) return std::malloc(size != 0 ? size : 1);
  int err = 0;
  char* const block = in_library([&] { return rds_malloc(size, nullptr, &err); });
  if (block == nullptr) throw std::bad_alloc();
  ++from_heap;
  return block;
}

void release(void* block) noexcept {
  require_the_program();
  auto* const at = static_cast<char*>(block);
  if (at < heap_begin || at >= heap_end) return std::free(block);
  int err = 0;
  if (in_library([&] { return rds_free(at, nullptr, &err); }) != 0) fail("rds_free", err);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t) { return allocate(size); }
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { release(block); }

namespace {

// What a program does, with containers and with exceptions of its own.
void work(unsigned seed) {
  std::map<unsigned, std::string> all;
  for (unsigned i = 0; i < 100; ++i) all.emplace(i * seed % 97, std::string(i + 20, 'x'));
  for (unsigned i = 0; i < 97; i += 2) all.erase(i);
  try {
    throw std::runtime_error("an exception of the program");
  } catch (const std::exception&) {
  }
  rvm_tid_t tid;
  rvm_init_tid(&tid);
  CHECK_OK(rvm_begin_transaction(&tid, restore));
  char* const at = RegionDefs[1].vmaddr + seed * 8;
  CHECK_OK(rvm_set_range(&tid, at, 8));
  *at = 'w';
  CHECK_OK(rvm_end_transaction(&tid, seed % 2 == 0 ? flush : no_flush));
  if (in_library([&] { return rvm_end_transaction(&tid, flush); }) != RVM_ETID) fail("an error without its code");
  CHECK_OK(rvm_begin_transaction(&tid, restore));
  CHECK_OK(rvm_set_range(&tid, at, 8));
  CHECK_OK(rvm_abort_transaction(&tid));
}

void look_around() {
  rvm_statistics_t statistics;
  rvm_init_statistics(&statistics);
  CHECK_OK(RVM_STATISTICS(&statistics));
  rvm_options_t options;
  rvm_init_options(&options);
  CHECK_OK(rvm_query(&options, nullptr));
  rds_stats_t counted;
  CHECK_OK(rds_get_stats(&counted));
  CHECK_OK(rvm_truncate());
  CHECK_OK(rvm_flush());
}

}  // namespace

int main(int argc, char** argv) {
  is_the_programs = true;
  if (argc != 2) return 2;
  const std::string log = std::string(argv[1]) + "/log", data = std::string(argv[1]) + "/data";
  const int made = ::open(data.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (made < 0) fail("open");
  ::close(made);
  rvm_options_t options;
  rvm_init_options(&options);
  options.log_dev = const_cast<char*>(log.c_str());
  options.create_log_file = rvm_true;
  options.create_log_size = RVM_MK_OFFSET(0, 1 << 20);
  CHECK_OK(RVM_INIT(&options));
  int err = 0;
  char* const base = reinterpret_cast<char*>(0x150000000000);
  auto* const device = const_cast<char*>(data.c_str());
  CHECK_OK(rds_zap_heap(device, {0, 0}, base, 4096, 4 << 20, 20, 64, &err));
  char* fixed = nullptr;
  CHECK_OK(rds_load_heap(device, {0, 0}, &fixed, &err));
  heap_begin = RegionDefs[0].vmaddr;
  heap_end = heap_begin + RegionDefs[0].length;
  loaded = true;

  {
    std::vector<std::thread> threads;
    for (unsigned i = 1; i <= 4; ++i)
      threads.emplace_back([i] {
        is_the_programs = true;
        for (unsigned round = 0; round < 5; ++round) work(i);
      });
    look_around();
    for (std::thread& thread : threads) thread.join();
  }
  if (from_heap == 0) fail("nothing was allocated in the heap");

  loaded = false;
  CHECK_OK(rds_unload_heap(&err));
  CHECK_OK(rvm_terminate());
  std::printf("ok\n");
  return 0;
}
