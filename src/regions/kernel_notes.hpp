// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The region is open, and the kernel notes which pages are written (os/write_tracking.hpp).
#pragma once

#include <vector>

#include "log/counters.hpp"
#include "os/write_tracking.hpp"
#include "regions/write_finder.hpp"

namespace tenure::rvm {

class kernel_notes final : public write_finder {
 public:
  kernel_notes(tracked_pages& pages, counters::tracking_part& count) : pages_(pages), count_(count) {}

  bool start(const protection_guard&) noexcept override { return notes_.start(pages_.base, pages_.all().length); }
  void stop() noexcept override { notes_.stop(); }
  [[nodiscard]] bool grow(const protection_guard&) noexcept override { return notes_.grow(pages_.all().length); }
  bool find(std::vector<page_number>& written) override;
  void compared() noexcept override { found_.clear(); }
  [[nodiscard]] std::uint64_t cost_to_start(std::uint64_t present) const noexcept override;
  [[nodiscard]] std::uint64_t cost(std::uint64_t present, std::uint64_t written) const noexcept override;

  [[nodiscard]] std::uint64_t count_present(std::uint64_t most) noexcept override {
    return notes_.count_present(pages_.base, pages_.all().length, most);
  }
  [[nodiscard]] bool is_worth_choosing() noexcept override {
    return notes_.count_present(pages_.base, pages_.page_size, 1) != unknown;
  }

 private:
  tracked_pages& pages_;
  counters::tracking_part& count_;
  os::write_tracking notes_;
  std::vector<page_number> found_;  // the kernel tells of a page once, and a commit may have to be tried again
};

}  // namespace tenure::rvm
