// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The machine that a benchmark runs on: what it is, and the few things a benchmark asks of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace tenure::bench {

struct machine_report {
  std::string kernel, cpu;
  unsigned cpus = 0;         // that this process may use
  std::uint64_t memory = 0;  // bytes
  std::string file_system;   // type, under the benchmark's directory
  std::string mount_options, device;
  std::string huge_pages;  // the transparent_hugepage setting
  std::string load;        // load averages when asked: neighbours disturb
};
[[nodiscard]] machine_report describe_machine(const std::filesystem::path& directory);
// Several lines for people.
[[nodiscard]] std::string to_text(const machine_report& machine);

// Runs this thread, and the threads it starts, before ordinary ones (SCHED_RR, else a lower nice value) for as long as
// it lives; does nothing where that is not permitted.
class raised_priority {
 public:
  explicit raised_priority(bool wanted = true);
  ~raised_priority();
  raised_priority(const raised_priority&) = delete;
  raised_priority& operator=(const raised_priority&) = delete;
  [[nodiscard]] const char* means() const { return means_; }  // "SCHED_RR", "nice -10", "ordinary"

 private:
  const char* means_ = "ordinary";
};

// A new directory inside `parent`, removed with its contents at the end.
class scratch_directory {
 public:
  scratch_directory(const std::filesystem::path& parent, const std::string& prefix);
  ~scratch_directory();
  scratch_directory(const scratch_directory&) = delete;
  scratch_directory& operator=(const scratch_directory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Writes the file's dirty pages and asks the kernel to forget the clean ones. Returns the share of its pages that is in
// the page cache afterwards, 0 to 1: not 0 where somebody has it mapped or the kernel keeps it.
double drop_from_cache(const std::filesystem::path& file);
// How many of the file's pages are in the page cache.
[[nodiscard]] std::uint64_t pages_in_cache(const std::filesystem::path& file);
// Reads the whole file, so that it is in the page cache.
void load_into_cache(const std::filesystem::path& file);

// The largest resident set that this process has had since exec, in bytes (VmHWM: unlike ru_maxrss, not its parent's).
[[nodiscard]] std::uint64_t peak_resident_bytes();
// The resident set that it has now, in bytes.
struct resident_memory {
  std::uint64_t all = 0, anonymous = 0;  // not anonymous: pages of files that are mapped
};
[[nodiscard]] resident_memory resident_now();

}  // namespace tenure::bench
