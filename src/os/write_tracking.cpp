// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/write_tracking.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

namespace tenure::os {
namespace {

// The headers of older distributions lack these.
constexpr int user_mode_only = 1;                                   // Linux 5.11
constexpr std::uint64_t feature_write_protection_async = 1u << 15;  // Linux 6.7
constexpr std::uint64_t present_or_swapped = page_is_present | page_is_swapped;

pm_scan_arg arguments(std::byte* base, std::size_t length, std::span<page_region> found) {
  pm_scan_arg scan{};
  scan.size = sizeof scan;
  scan.start = reinterpret_cast<std::uint64_t>(base);
  scan.end = scan.start + length;
  scan.vec = found.empty() ? 0 : reinterpret_cast<std::uint64_t>(found.data());
  scan.vec_len = found.size();
  // Never "written" alone: every page that is not in memory counts as written, and all of them would get page tables.
  scan.category_anyof_mask = present_or_swapped;
  return scan;
}

}  // namespace

bool write_tracking::open_pagemap() noexcept {
  if (pagemap_ < 0) pagemap_ = ::open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
  return pagemap_ >= 0;
}

int write_tracking::scan(pm_scan_arg& how) noexcept {
  for (;;) {
    const int count = ::ioctl(pagemap_, pagemap_scan, &how);
    if (count >= 0 || errno != EINTR) return count;
    how.start = how.walk_end;
  }
}

bool write_tracking::start(std::byte* base, std::size_t length) noexcept {
  if (is_on()) return true;
  if (!open_pagemap()) return false;
  base_ = base;
  length_ = length;
  userfaultfd_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only));
  if (userfaultfd_ < 0) return false;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = feature_write_protection_async;
  uffdio_register range{};
  range.range = {reinterpret_cast<std::uint64_t>(base), length};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  // The first reset arms every page that is in memory. A page that comes into memory later counts as written then.
  auto arm = arguments(base, length, {});
  arm.flags = scan_resets_written | scan_needs_tracking;
  arm.category_mask = page_is_written;
  if (::ioctl(userfaultfd_, UFFDIO_API, &api) == 0 && ::ioctl(userfaultfd_, UFFDIO_REGISTER, &range) == 0 &&
      scan(arm) >= 0)
    return true;
  stop();
  return false;
}

// A page that comes into memory counts as written then, so nothing has to be armed.
bool write_tracking::grow(std::size_t length) noexcept {
  uffdio_register added{};
  added.range = {reinterpret_cast<std::uint64_t>(base_) + length_, length - length_};
  added.mode = UFFDIO_REGISTER_MODE_WP;
  if (!is_on() || ::ioctl(userfaultfd_, UFFDIO_REGISTER, &added) != 0) {
    stop();
    return false;
  }
  length_ = length;
  return true;
}

void write_tracking::stop() noexcept {
  if (userfaultfd_ >= 0) ::close(userfaultfd_);  // this ends the registration
  if (pagemap_ >= 0) ::close(pagemap_);
  userfaultfd_ = pagemap_ = -1;
}

bool write_tracking::reset(page_runs& written) {
  auto how = arguments(base_, length_, found_);
  how.flags = scan_resets_written | scan_needs_tracking;
  how.category_mask = how.return_mask = page_is_written;
  while (how.start < how.end) {
    const int count = scan(how);
    if (count < 0) return false;
    const auto found = std::span(found_).first(static_cast<std::size_t>(count));
    for (const page_region& r : found)
      written.push_back({base_ + (r.start - reinterpret_cast<std::uint64_t>(base_)), r.end - r.start});
    std::ranges::fill(found, page_region{});  // or these addresses look like pointers
    if (how.walk_end <= how.start) return false;
    how.start = how.walk_end;
  }
  return true;
}

bool write_tracking::collect(page_runs& written) {
  page_runs candidates;
  if (!reset(candidates)) return false;
  // Pages that were read for the first time count as written, too. They are filtered out here. If the first scan did
  // that, it would look up the owner of every page in memory: 30 ns for each page instead of 2.
  for (const page_run& run : candidates) {
    auto classify = arguments(run.address, run.length, found_);
    classify.category_inverted = classify.category_mask = classify.return_mask = page_is_file;
    while (classify.start < classify.end) {
      const int count = scan(classify);
      if (count < 0) return false;
      const auto found = std::span(found_).first(static_cast<std::size_t>(count));
      for (const page_region& r : found) {
        std::byte* const at = base_ + (r.start - reinterpret_cast<std::uint64_t>(base_));
        if (!written.empty() && written.back().address + written.back().length == at)
          written.back().length += r.end - r.start;
        else
          written.push_back({at, r.end - r.start});
      }
      std::ranges::fill(found, page_region{});
      if (classify.walk_end <= classify.start) return false;
      classify.start = classify.walk_end;
    }
  }
  return true;
}

std::uint64_t write_tracking::count_present(std::byte* base, std::size_t length, std::uint64_t most) noexcept {
  if (!open_pagemap()) return ~std::uint64_t{0};
  auto count = arguments(base, length, found_);
  count.return_mask = present_or_swapped;
  std::uint64_t pages = 0;
  while (count.start < count.end && pages < most) {
    const int regions = scan(count);
    if (regions < 0) return ~std::uint64_t{0};
    const auto found = std::span(found_).first(static_cast<std::size_t>(regions));
    for (const page_region& r : found) pages += (r.end - r.start) / page_size();
    std::ranges::fill(found, page_region{});
    if (count.walk_end <= count.start) break;
    count.start = count.walk_end;
  }
  return pages;
}

}  // namespace tenure::os
