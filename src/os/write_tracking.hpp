// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The kernel's own notes of which pages are written: asynchronous write protection of userfaultfd, read and reset by
// PAGEMAP_SCAN (both Linux 6.7). Works on private mappings of files, before and after a page has its private copy, without
// privileges, and counts what system calls write. Costs about a microsecond a written page and 2 ns a page scanned; pages of
// a mapping that is tracked take longer to be read in, so a mapping is tracked only when that is known to pay.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "os/pagemap.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::os {

// For one mapping of whole pages. One thread at a time.
class write_tracking {
 public:
  write_tracking() = default;
  ~write_tracking() { stop(); }
  write_tracking(const write_tracking&) = delete;
  write_tracking& operator=(const write_tracking&) = delete;

  // From now on writes in the mapping are noted; what was written before is forgotten. False if the kernel cannot or may
  // not. Async-signal-safe.
  bool start(std::byte* base, std::size_t length) noexcept;
  void stop() noexcept;
  [[nodiscard]] bool is_on() const noexcept { return userfaultfd_ >= 0; }

  // Adds the pages that were written since the last call to `written`, as runs in ascending order: those of them that the
  // process has its own copy of. Those of `passed_over`, which are in ascending order too, are not looked at, and count as
  // written the next time. False if the kernel refuses what it allowed before; then nothing is known.
  bool collect(std::vector<page_run>& written, std::span<const page_run> passed_over = {});

  // How many pages of the mapping are in memory; stops counting at `most`. ~0 if the kernel cannot tell.
  // Async-signal-safe.
  [[nodiscard]] std::uint64_t count_present(std::byte* base, std::size_t length, std::uint64_t most) noexcept;

 private:
  bool open_pagemap() noexcept;
  [[nodiscard]] int scan(pm_scan_arg& how) noexcept;
  bool reset(std::byte* from, std::size_t length, std::vector<page_run>& written);

  int userfaultfd_ = -1, pagemap_ = -1;
  std::byte* base_ = nullptr;
  std::size_t length_ = 0;
  std::array<page_region, 256> found_{};
};

}  // namespace tenure::os
