// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Who updates a few words of many records: for bench_barriers.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenure::bench::barriers {

struct record {
  std::array<std::uint64_t, 16> words;
};

// A word of a record, and its new value.
struct update {
  std::uint32_t record, word;
  std::uint64_t value;
};

struct setup {
  std::filesystem::path directory;  // empty
  std::uint32_t records;
  bool durable = false;  // each transaction is; otherwise the system's lazy way
};

class contender {
 public:
  virtual ~contender() = default;
  // How its transactions are made.
  [[nodiscard]] virtual std::string setting() const = 0;
  // Makes the records, all words zero, and leaves them open.
  virtual void create(const setup& how) = 0;
  // Several threads may call it at the same time, with different records.
  virtual void transact(std::span<const update> updates) = 0;
  // All earlier transactions are on the disk then.
  virtual void flush() = 0;
  [[nodiscard]] virtual std::uint64_t word(std::uint32_t record, std::uint32_t word) = 0;
};

struct contender_kind {
  std::string name;
  std::function<std::unique_ptr<contender>()> make;  // a null pointer: the system is not installed
  bool laboratory = false;                           // not among those that are run if nothing is said
};
[[nodiscard]] const std::vector<contender_kind>& all_contenders();

// Recoverable memory, and stores in every way.
[[nodiscard]] std::vector<contender_kind> tenure_contenders();
std::unique_ptr<contender> make_lmdb();
std::unique_ptr<contender> make_pmemobj();

}  // namespace tenure::bench::barriers
