// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
//     loads_module MODULE
//
// Loads the shared object, whose stores must be announced to this program. It takes the place of libtenure.
#include <algorithm>
#include <cstdint>
#include <cstdio>

#include <dlfcn.h>

#include <tenure/barriers.hpp>

namespace {

alignas(4096) std::byte area[8 * 4096];
std::byte before[sizeof area];
bool announced[sizeof area];
constinit tenure::detail::watched_memory run_time{};

}  // namespace

void tenure::announce_store(const void* at, std::size_t length) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at), base = reinterpret_cast<std::uintptr_t>(area);
  const std::uintptr_t first = std::max(from, base), last = std::min(from + length, base + sizeof area);
  for (std::uintptr_t a = first; a < last; ++a) announced[a - base] = true;
}
void tenure::detail::tell_watched_memory(const watched_memory& to) noexcept { run_time = to; }

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* const module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto function = [&]<class F>(F*, const char* name) { return reinterpret_cast<F*>(dlsym(module, name)); };
  run_time.begins(area, sizeof area);
  char* const to = reinterpret_cast<char*>(area);
  int wrong = 0;
  const auto check = [&](const char* what, auto&& run) {
    std::copy_n(area, sizeof area, before);
    std::fill_n(announced, sizeof area, false);
    run();
    std::size_t changed = 0, missed = 0;
    for (std::size_t n = 0; n < sizeof area; ++n) {
      changed += area[n] != before[n] ? 1 : 0;
      missed += area[n] != before[n] && !announced[n] ? 1 : 0;
    }
    if (changed != 0 && missed == 0) return;
    std::printf("%s: %zu bytes changed, %zu of them were not announced\n", what, changed, missed);
    ++wrong;
  };
  check("a number", [&] {
    function(static_cast<void (*)(long*, long)>(nullptr), "write_number")(reinterpret_cast<long*>(to), 0x123456789);
  });
  check("bytes", [&] {
    function(static_cast<void (*)(char*, const char*, std::size_t)>(nullptr), "write_bytes")(to + 100, argv[1], 5);
  });
  check("a text",
        [&] { function(static_cast<void (*)(char*, const char*)>(nullptr), "write_text")(to + 200, argv[1]); });
  check("a list", [&] { function(static_cast<void (*)(void*)>(nullptr), "write_list")(to + 8000); });

  // Memory that is not watched any more, and is again.
  const auto write_number = function(static_cast<void (*)(long*, long)>(nullptr), "write_number");
  run_time.ends(area, sizeof area);
  std::fill_n(announced, sizeof area, false);
  write_number(reinterpret_cast<long*>(to), 5);
  if (std::count(announced, announced + sizeof area, true) != 0) {
    std::printf("a store is announced though its memory is not watched any more\n");
    ++wrong;
  }
  run_time.begins(area, sizeof area);
  check("a number, again", [&] { write_number(reinterpret_cast<long*>(to), 6); });
  return wrong == 0 ? 0 : 1;
}
