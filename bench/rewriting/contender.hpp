// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What writes a store anew: each way of this library's, and what does the same job in other systems.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "harness/contender_table.hpp"

namespace tenure::bench::rewriting {

// Half of what a store was filled with is garbage or holes when it is rewritten: of four objects in a row one is dropped and one
// destroyed.
struct size {
  std::uint64_t objects = 0;  // that were made
};
[[nodiscard]] constexpr bool is_kept(std::uint64_t n) { return n % 4 != 1 && n % 4 != 3; }

struct rewritten {
  std::uint64_t bytes = 0;  // of the new files
  std::uint64_t live = 0;   // bytes of objects or records in them, as far as it is told
};

class contender {
 public:
  explicit contender(std::filesystem::path directory) : directory_(std::move(directory)) {}
  virtual ~contender() = default;
  [[nodiscard]] virtual std::string setting() const = 0;
  virtual void make(const size& of) = 0;
  // What is not measured, in the process that measures: opening where the original is not.
  virtual void prepare() {}
  // Durable on return.
  virtual rewritten rewrite() = 0;
  // Throws if what is there is not what was made.
  virtual void check(const size& of) = 0;

 protected:
  [[nodiscard]] std::string made() const { return (directory_ / "made").string(); }
  [[nodiscard]] std::string anew() const { return (directory_ / "anew").string(); }

 private:
  const std::filesystem::path directory_;
};

using make_contender = std::unique_ptr<contender>(const std::filesystem::path& directory);
struct contender_kind {
  std::string name;
  make_contender* make;
  std::string like = {};  // one that makes the same original
};
[[nodiscard]] std::span<const contender_kind> all_contenders();

// Milliseconds that it takes to plan the conversion of so many types with ten fields each.
[[nodiscard]] double plan_types();
constexpr std::size_t planned_types = 50;

}  // namespace tenure::bench::rewriting
