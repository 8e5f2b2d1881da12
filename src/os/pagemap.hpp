// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The kernel's PAGEMAP_SCAN, Linux 6.7, include/uapi/linux/fs.h. The headers of older distributions lack it.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

namespace tenure::os {

struct page_region {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t categories;
};
struct pm_scan_arg {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t walk_end;
  std::uint64_t vec;
  std::uint64_t vec_len;
  std::uint64_t max_pages;
  std::uint64_t category_inverted;
  std::uint64_t category_mask;
  std::uint64_t category_anyof_mask;
  std::uint64_t return_mask;
};
static_assert(sizeof(page_region) == 24 && sizeof(pm_scan_arg) == 96);
constexpr unsigned long pagemap_scan = _IOWR('f', 16, pm_scan_arg);
constexpr std::uint64_t scan_resets_written = 1u << 0, scan_needs_tracking = 1u << 1;  // flags
constexpr std::uint64_t page_is_written = 1u << 1;
constexpr std::uint64_t page_is_file = 1u << 2;
constexpr std::uint64_t page_is_present = 1u << 3;
constexpr std::uint64_t page_is_swapped = 1u << 4;

}  // namespace tenure::os
