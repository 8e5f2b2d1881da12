// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::uintptr_t left = 0;  // no function is there

// Fixed memory: an allocation inside the recorder would be part of what it records.
std::array<std::uintptr_t, 1 << 22> events;
std::size_t count = 0;
bool cut = false;
thread_local bool recording = false;

void record(std::uintptr_t event) {
  if (!recording) return;
  if (count == events.size()) {
    cut = true;
    return;
  }
  events[count++] = event;
}

}  // namespace

extern "C" {

void __cyg_profile_func_enter(void* function, void* /*call_site*/) {
  record(reinterpret_cast<std::uintptr_t>(function));
}
void __cyg_profile_func_exit(void* /*function*/, void* /*call_site*/) { record(left); }

}  // extern "C"

namespace trace {

void begin() {
  count = 0;
  cut = false;
  recording = true;
}

void end() { recording = false; }

void write(const char* path) {
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr || cut) {
    std::fprintf(stderr, "%s: %s\n", path, cut ? "the record is too long" : "cannot be written");
    std::exit(1);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (events[i] == left)
      std::fputs("<\n", file);
    else
      std::fprintf(file, "> %jx\n", static_cast<std::uintmax_t>(events[i]));
  }
  if (std::fclose(file) != 0) std::exit(1);
}

}  // namespace trace
