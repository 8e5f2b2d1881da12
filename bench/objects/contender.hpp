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

// When pobj is told of a write: at each, with the field or with all of the object, or once before the commit. The others
// have no such choice.
enum class reflection { field, whole, once };

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

struct contender_kind {
  std::string name;
  std::unique_ptr<contender> (*make)();  // a null pointer where it is not built
  bool only_for_writes = false;          // it makes objects as another one does
};
[[nodiscard]] std::span<const contender_kind> all_contenders();

std::unique_ptr<contender> make_pobj(reflection when);
std::unique_ptr<contender> make_heap();
std::unique_ptr<contender> make_recoverable();
std::unique_ptr<contender> make_lmdb();

}  // namespace tenure::bench::objects
