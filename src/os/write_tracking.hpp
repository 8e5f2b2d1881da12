// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The kernel's own notes of written pages: asynchronous write protection of userfaultfd, read and reset by PAGEMAP_SCAN
// (both Linux 6.7). It works on private mappings of files, before and after a page has its private copy, without
// privileges, and includes what system calls write. It costs about a microsecond for each written page and 2 ns for
// each scanned page. The pages of a tracked mapping take longer to be read in, so a mapping is tracked only when that
// is known to pay.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "os/pagemap.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::os {

// For one mapping of whole pages. Used by one thread at a time.
class write_tracking {
 public:
  write_tracking() = default;
  ~write_tracking() { stop(); }
  write_tracking(const write_tracking&) = delete;
  write_tracking& operator=(const write_tracking&) = delete;

  // From now on writes in the mapping are noted, and earlier ones are forgotten. Returns false if the kernel cannot do
  // it or does not allow it. Async-signal-safe.
  bool start(std::byte* base, std::size_t length) noexcept;
  // The mapping has become longer. Notes of the old part stay; of the new one, which nobody has written yet, they begin.
  // Returns false if the kernel refuses; then it stops. Async-signal-safe.
  bool grow(std::size_t length) noexcept;
  void stop() noexcept;
  [[nodiscard]] bool is_on() const noexcept { return userfaultfd_ >= 0; }

  // Adds the pages that were written since the last call to `written`, as runs in ascending order, if the process has
  // its own copy of them. Returns false if the kernel refuses what it allowed before; then nothing is known.
  bool collect(page_runs& written);

  // The number of pages of the mapping that are in memory. Stops counting at `most`. ~0 if the kernel cannot tell.
  // Async-signal-safe.
  [[nodiscard]] std::uint64_t count_present(std::byte* base, std::size_t length, std::uint64_t most) noexcept;

 private:
  bool open_pagemap() noexcept;
  [[nodiscard]] int scan(pm_scan_arg& how) noexcept;
  bool reset(page_runs& written);

  int userfaultfd_ = -1, pagemap_ = -1;
  std::byte* base_ = nullptr;
  std::size_t length_ = 0;
  std::array<page_region, 256> found_{};
};

}  // namespace tenure::os
