// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the churned graph asks of a system.
//
// Order of calls: create, then transactions of replace; settle; audits between begin and commit; tidy; close. Everything throws
// on failure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace tenure::bench::collect {

class contender {
 public:
  // An empty directory of its own.
  contender(const std::filesystem::path& directory, std::uint64_t slots) : directory_(directory), slots_(slots) {}
  virtual ~contender() = default;
  contender(const contender&) = delete;
  contender& operator=(const contender&) = delete;

  [[nodiscard]] virtual std::string setting() const = 0;
  // All slots are empty.
  virtual void create() = 0;
  virtual void begin() {}
  virtual void commit() {}  // need not be durable
  // The slot gets a new group. What it had is dropped.
  virtual void replace(std::uint64_t slot, std::uint64_t serial) = 0;
  // What is committed is durable.
  virtual void settle() {}
  // The sum of the numbers in the slot's group.
  virtual std::uint64_t sum(std::uint64_t slot) = 0;
  // Gives back what space it can.
  virtual void tidy() {}
  virtual void close() {}
  // The file below the directory that has the objects; "": none. All others are its log.
  [[nodiscard]] virtual std::string file() const { return {}; }
  // What it tells of itself.
  [[nodiscard]] virtual std::map<std::string, double> told() const { return {}; }

 protected:
  std::filesystem::path directory_;
  std::uint64_t slots_;
};

using make_contender = std::unique_ptr<contender>(const std::filesystem::path& directory, std::uint64_t slots);

struct contender_kind {
  std::string name;
  make_contender* make;  // a null pointer where it is not built
};
// All that there are, the floor first.
[[nodiscard]] std::span<const contender_kind> all_contenders();

}  // namespace tenure::bench::collect
