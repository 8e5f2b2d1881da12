// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which parts of a mapping are used first, and in which order: they are inaccessible until then. For mappings that are only read.
// A system call that reads from a part that was not used yet fails with EFAULT.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "os/fault.hpp"

namespace tenure::os {

// [begin, begin+length) is mapped, readable, and stays so while this lives: from now on part by part. Nobody else changes its
// protection.
class access_trace final : write_trap {
 public:
  // `unit`: bytes of a part, a multiple of the page size. Throws if the memory cannot be protected.
  access_trace(std::byte* begin, std::size_t length, std::size_t unit, const std::string& name);
  ~access_trace();
  access_trace(const access_trace&) = delete;
  access_trace& operator=(const access_trace&) = delete;

  // So many parts that the kernel can tell them apart.
  [[nodiscard]] static std::size_t unit_for(std::size_t length);
  // The parts by number, in the order of their first use, until now.
  [[nodiscard]] std::vector<std::uint32_t> used() const;
  // Whether the kernel has refused to open a part of its own. Then all are open, and no more is noted.
  [[nodiscard]] bool is_cut_short() const { return is_cut_short_; }

 private:
  answer on_write(std::byte*) noexcept override { return answer::refused; }
  bool on_access(std::byte* at, bool is_write) noexcept override;

  std::byte* const begin_;
  const std::size_t length_, unit_;
  std::vector<std::atomic<std::uint8_t>> is_used_;
  std::vector<std::atomic<std::uint32_t>> order_;  // 1 + the number of a part; 0: it is being noted
  std::atomic<std::size_t> noted_{0};
  std::atomic<bool> is_cut_short_{false};
  fault_range range_;  // last: until it is gone, the handler uses the others
};

}  // namespace tenure::os
