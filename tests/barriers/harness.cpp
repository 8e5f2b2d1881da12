// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
//     constructs [-v]
//
// Runs all constructs. It has the run-time of barriers and takes the place of libtenure: what is announced comes here.
// Fails if a construct misses a store that it should not miss, or does not miss one that it is known to miss.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include <sys/mman.h>

#include <tenure/barriers.hpp>

#include "barriers/construct.hpp"
#include "barriers/known_misses.hpp"

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t area_length = 64 * page;

constinit std::byte* area = nullptr;
constinit std::byte before[area_length];
constinit bool announced[area_length];
constinit std::size_t used = 0;
constinit std::size_t missed = 0, first_missed = 0;
constinit bool watching = false;
constinit tenure::detail::watched_memory run_time{};

std::map<std::size_t, std::vector<void*>>& free_blocks() {
  static std::map<std::size_t, std::vector<void*>> blocks;
  return blocks;
}

struct entry {
  std::string name;
  std::function<void()> run;
};
std::vector<entry>& entries() {
  static std::vector<entry> all;
  return all;
}

}  // namespace

void tenure::announce_store(const void* at, std::size_t length) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(at), base = reinterpret_cast<std::uintptr_t>(area);
  const std::uintptr_t first = std::max(from, base), last = std::min(from + length, base + area_length);
  for (std::uintptr_t a = first; a < last; ++a) announced[a - base] = true;
}

// Called by the run-time before all constructors.
void tenure::detail::tell_watched_memory(const watched_memory& to) noexcept { run_time = to; }

namespace constructs {

construct::construct(std::string name, std::function<void()> run) {
  entries().push_back({std::move(name), std::move(run)});
}

void* take(std::size_t length, std::size_t alignment) {
  std::vector<void*>& blocks = free_blocks()[length];
  if (!blocks.empty()) {
    void* const at = blocks.back();
    blocks.pop_back();
    return at;
  }
  used = (used + std::max<std::size_t>(alignment, 16) - 1) / std::max<std::size_t>(alignment, 16) *
         std::max<std::size_t>(alignment, 16);
  if (used + length > area_length) {
    std::fprintf(stderr, "a construct takes more memory than there is\n");
    std::abort();
  }
  return area + std::exchange(used, used + length);
}

void give_back(void* at, std::size_t length) { free_blocks()[length].push_back(at); }

void watch() {
  std::copy_n(area, area_length, before);
  std::fill(std::begin(announced), std::end(announced), false);
  watching = true;
}

void look() {
  for (std::size_t n = 0; n < area_length; ++n)
    if (area[n] != before[n] && !announced[n] && missed++ == 0) first_missed = n;
  watch();
}

}  // namespace constructs

int main(int argc, char** argv) {
  const bool tell_all = argc > 1 && std::strcmp(argv[1], "-v") == 0;
  // Not a whole page of the shadow, at neither end.
  void* const mapped =
      mmap(nullptr, area_length + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED || run_time.begins == nullptr) {
    std::fprintf(stderr, "there is no memory, or no run-time\n");
    return 1;
  }
  area = static_cast<std::byte*>(mapped) + page;
  run_time.begins(area, area_length);

  std::size_t wrong = 0, known = 0;
  for (const entry& e : entries()) {
    std::fill_n(area, area_length, std::byte{0x5a});
    used = 0;
    free_blocks().clear();
    missed = 0;
    watching = false;
    e.run();
    if (!watching) {
      std::printf("%s: does not call watch()\n", e.name.c_str());
      ++wrong;
    }
    constructs::look();
    const bool should_miss = constructs::is_known_miss(e.name);
    if (missed != 0 && !should_miss)
      std::printf("%s: %zu bytes changed and were not announced, the first at %zu\n", e.name.c_str(), missed,
                  first_missed);
    if (missed == 0 && should_miss) std::printf("%s: is seen, though it is listed as missed\n", e.name.c_str());
    if ((missed != 0) != should_miss)
      ++wrong;
    else if (should_miss)
      ++known;
    if (tell_all) std::printf("%-50s %s\n", e.name.c_str(), missed == 0 ? "seen" : "missed");
  }
  run_time.ends(area, area_length);
  std::printf("%zu constructs, %zu known to be missed, %zu wrong\n", entries().size(), known, wrong);
  return wrong == 0 ? 0 : 1;
}
