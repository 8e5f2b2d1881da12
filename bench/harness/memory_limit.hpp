// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A limit on the memory of processes, the page cache of their files included: a control group.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tenure::bench {

class memory_limit {
 public:
  // Throws where control groups cannot be made: it needs root, and a kernel that has the memory controller.
  explicit memory_limit(std::uint64_t bytes);
  ~memory_limit();
  memory_limit(const memory_limit&) = delete;
  memory_limit& operator=(const memory_limit&) = delete;
  // For enter_memory_limit() in a child process.
  [[nodiscard]] const std::string& group() const { return group_; }

 private:
  std::string group_;
};

// This process, and what it touches from now on, counts in the group. What is in the page cache already does not.
void enter_memory_limit(const std::string& group);

}  // namespace tenure::bench
