// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/kernel_notes.hpp"

#include "os/virtual_memory.hpp"

namespace tenure::rvm {

namespace {

// In ns for each page in memory.
constexpr std::uint64_t first_scans = 55;     // the first time, and two scans
constexpr std::uint64_t two_noted_scans = 6;  // once the kernel notes its writes

}  // namespace

bool kernel_notes::find(std::vector<page_number>& written) {
  ++count_.scans;
  os::page_runs runs;
  if (!notes_.collect(runs)) return false;
  const std::size_t before = found_.size();
  for (const os::page_run& run : runs) {
    const page_number first = pages_.page_of(run.address);
    for (std::uint64_t i = 0; i < run.length / pages_.page_size; ++i)
      found_.push_back(first + static_cast<page_number>(i));
  }
  count_.scanned_pages += found_.size() - before;
  written.insert(written.end(), found_.begin(), found_.end());
  return true;
}

std::uint64_t kernel_notes::cost_to_start(std::uint64_t present) const noexcept {
  return present * (notes_.is_on() ? two_noted_scans : first_scans);
}

std::uint64_t kernel_notes::cost(std::uint64_t present, std::uint64_t) const noexcept {
  return present * two_noted_scans;
}

}  // namespace tenure::rvm
