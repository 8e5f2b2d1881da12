// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/private_scan.hpp"

#include "os/virtual_memory.hpp"

namespace tenure::rvm {

namespace {

// In ns for each page in memory, for begin and commit together.
constexpr std::uint64_t two_scans = 80, two_comparisons = 400;

}  // namespace

bool private_scan::find(std::vector<page_number>& written) {
  ++count_.private_scans;
  const std::size_t before = written.size();
  const memory_range all = pages_.all();
  os::for_each_private_copy(all.address, all.length, [&](const os::page_run& run) {
    const page_number first = pages_.page_of(run.address);
    for (std::uint64_t i = 0; i < run.length / pages_.page_size; ++i)
      written.push_back(first + static_cast<page_number>(i));
  });
  count_.private_pages_compared += written.size() - before;
  return true;
}

std::uint64_t private_scan::cost_to_start(std::uint64_t present) const noexcept { return present * two_scans; }

std::uint64_t private_scan::cost(std::uint64_t present, std::uint64_t) const noexcept {
  return present * (two_scans + two_comparisons);
}

bool private_scan::is_worth_choosing() noexcept { return os::knows_private_copies(); }

}  // namespace tenure::rvm
