// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// One opening of a log: what every operation asks first, whether it may use the memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <tenure/error.hpp>

namespace tenure::rvm {

enum class opened_for { writing, reading };

class opening {
 public:
  opening(std::string log_path, opened_for purpose);

  // Of this opening in the process: never used again.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // The log's, absolute.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool is_read_only() const { return read_only_; }
  [[nodiscard]] bool is_closed() const { return closed_; }
  [[nodiscard]] bool is_of_this_process() const;
  void close() noexcept { closed_ = true; }
  // What is thrown once it is closed.
  [[nodiscard]] error closed_error() const;

  // They throw the reason: forked, closed, read_only.
  void require_own_process() const;
  void require_usable() const;
  void require_writable() const;

 private:
  const std::uint64_t number_;
  const std::string path_;
  const bool read_only_;
  const std::uint32_t fork_generation_;
  std::atomic<bool> closed_{false};
};

}  // namespace tenure::rvm
