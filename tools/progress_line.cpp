// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "progress_line.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tenure::tools {

namespace {

constexpr std::chrono::milliseconds first_wait{1000}, between{200};

}  // namespace

progress_line::progress_line(std::FILE* to, clock now, std::string working)
    : to_(to),
      now_(std::move(now)),
      working_(std::move(working)),
      begun_(now_()),
      next_(begun_ + first_wait),
      next_tick_(next_) {}

void progress_line::show(const char* what, std::uint64_t done, std::uint64_t total) {
  if (to_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto now = now_();
  if (now < next_) return;
  next_ = now + between;
  next_tick_ = now + first_wait;
  constexpr double mib = 1 << 20;
  print(fmt::format("{}: {:.0f} of {:.0f} MiB, {:.0f} %", what, static_cast<double>(done) / mib,
                    static_cast<double>(total) / mib,
                    100.0 * static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1))));
}

void progress_line::tick() {
  if (to_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto now = now_();
  if (now < next_tick_) return;
  next_tick_ = now + between;
  print(fmt::format("{}: {} s", working_, std::chrono::duration_cast<std::chrono::seconds>(now - begun_).count()));
}

void progress_line::tick_by_itself() {
  if (to_ == nullptr) return;
  ticker_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex own;
    std::unique_lock lock(own);
    while (!never_.wait_for(lock, stop, between, [&] { return stop.stop_requested(); })) tick();
  });
}

void progress_line::hide() {
  if (to_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(shown_, false)) return;
  // What prints a little at a time would make it flicker.
  next_ = next_tick_ = now_() + first_wait;
  (void)std::fputs("\r\x1b[K", to_);
  std::fflush(to_);
}

void progress_line::print(const std::string& line) {
  (void)std::fputs(("\r" + line + "\x1b[K").c_str(), to_);
  std::fflush(to_);
  shown_ = true;
}

}  // namespace tenure::tools
