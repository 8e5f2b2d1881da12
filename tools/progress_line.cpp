// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "progress_line.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tenure::tools {

progress_line::progress_line(std::FILE* to, clock now)
    : to_(to), now_(std::move(now)), next_(now_() + std::chrono::seconds(1)) {}

void progress_line::show(const char* what, std::uint64_t done, std::uint64_t total) {
  if (to_ == nullptr) return;
  const auto now = now_();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  constexpr double mib = 1 << 20;
  fmt::print(to_, "\r{}: {:.0f} of {:.0f} MiB, {:.0f} %\x1b[K", what, static_cast<double>(done) / mib,
             static_cast<double>(total) / mib,
             100.0 * static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
  std::fflush(to_);
  shown_ = true;
}

void progress_line::hide() {
  if (!std::exchange(shown_, false)) return;
  fmt::print(to_, "\r\x1b[K");
  std::fflush(to_);
}

}  // namespace tenure::tools
