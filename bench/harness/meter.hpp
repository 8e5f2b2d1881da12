// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a stretch of a program cost: time on the clock, processor time of all threads of the process, and what the
// device under its files wrote and flushed meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace tenure::bench {

struct cost {
  double seconds = 0;
  double user_seconds = 0, system_seconds = 0;  // getrusage(RUSAGE_SELF)
  // Of the whole device, whoever asked for it. Nothing where the kernel does not say. (/proc/self/io would count a page
  // cache folio of a megabyte for each small write into it.)
  std::optional<std::uint64_t> device_bytes_written, device_flushes;
  [[nodiscard]] double cpu_seconds() const { return user_seconds + system_seconds; }
};

class meter {
 public:
  // Starts. `on`: a path on the device.
  explicit meter(const std::filesystem::path& on = {});
  // What was spent since.
  [[nodiscard]] cost read() const;

 private:
  struct device_counts {
    std::optional<std::uint64_t> written, flushes;
  };
  struct reading {
    std::chrono::steady_clock::time_point when;
    double user = 0, system = 0;
    device_counts device;
  };
  [[nodiscard]] reading take() const;
  [[nodiscard]] device_counts read_device() const;
  std::filesystem::path device_stat_;
  reading start_;
};

}  // namespace tenure::bench
