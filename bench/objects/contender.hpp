// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What figures 7 to 9 of the pobj paper ask of a system: objects that are made, and fields that are written, in durable
// transactions of one operation or of many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace tenure::bench::objects {

class contender {
 public:
  virtual ~contender() = default;
  [[nodiscard]] virtual std::string setting() const = 0;
  virtual void open(const std::filesystem::path& directory) = 0;
  virtual void close() = 0;
  virtual void begin() = 0;
  virtual void commit() = 0;  // durable on return
  // In a transaction: a new object of 16 bytes, which stays.
  virtual void allocate() = 0;
  // In a transaction: the one object that is written to, of zeros; then a word of it. The offset is a multiple of 8.
  virtual void prepare(std::size_t size) = 0;
  virtual void write(std::size_t offset, std::int64_t value) = 0;
};

using make_contender = std::unique_ptr<contender>();

struct contender_kind {
  std::string name;
  make_contender* make;          // a null pointer where it is not built
  bool only_for_writes = false;  // it makes objects as another one does
};
[[nodiscard]] std::span<const contender_kind> all_contenders();

}  // namespace tenure::bench::objects
