// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The region is open, and pages of which the process has its own copy are candidates: whatever was written has one. All of
// them are compared in every transaction. Works on every system, where the kernel cannot tell with all pages.
#pragma once

#include "log/counters.hpp"
#include "regions/write_finder.hpp"

namespace tenure::rvm {

class private_scan final : public write_finder {
 public:
  private_scan(tracked_pages& pages, counters::tracking_part& count) : pages_(pages), count_(count) {}

  bool start(const protection_guard&) noexcept override { return true; }
  bool find(std::vector<page_number>& written) override;
  [[nodiscard]] std::uint64_t cost_to_start(std::uint64_t present) const noexcept override;
  [[nodiscard]] std::uint64_t cost(std::uint64_t present, std::uint64_t written) const noexcept override;
  [[nodiscard]] bool is_worth_choosing() noexcept override;

 private:
  tracked_pages& pages_;
  counters::tracking_part& count_;
};

}  // namespace tenure::rvm
