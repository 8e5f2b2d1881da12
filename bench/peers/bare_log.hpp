// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the bare logs share: a bank in plain memory, log records made from it, and a file that is written in a circle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "tpca/workload.hpp"

namespace tenure::bench::tpca {

// The records as a C++ program has them that does not care about crashes. Threads may run transfers of distinct
// branches and accounts at the same time.
class memory_bank {
 public:
  explicit memory_bank(const layout& bank);

  struct places {
    record *account, *teller, *branch;
    history* trail;
  };
  // Carries the transfer out, and says where.
  places run(const transfer& what);
  void audit(auditor& by) const;
  // Where a record lies, as a log would name it.
  [[nodiscard]] static std::uint64_t name_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

 private:
  layout bank_;
  std::vector<record> accounts_, tellers_, branches_;
  std::vector<history> trail_;
};

// Bytes that encode() makes of a transfer.
[[nodiscard]] std::size_t encoded_size(bool whole_records);
// A redo record: a header with length and CRC32C, then for each changed range its place, length and new value. `into`
// has room for encoded_size() bytes.
void encode(const memory_bank::places& at, bool whole_records, std::byte* into);

// A preallocated, zero-filled file, written in a circle; synced with fdatasync.
class ring_file {
 public:
  // Creates the file, durably.
  static void create(const std::filesystem::path& path, std::uint64_t size);
  explicit ring_file(const std::filesystem::path& path);
  ~ring_file();
  ring_file(const ring_file&) = delete;
  ring_file& operator=(const ring_file&) = delete;
  // Writes behind the last append; at the start again where the rest does not fit.
  void append(std::span<const std::byte> data);
  void sync();

 private:
  int fd_;
  std::uint64_t size_ = 0, at_ = 0;
};

}  // namespace tenure::bench::tpca
