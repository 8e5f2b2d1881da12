// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the list of the pobj paper's section 6.1 asks of a system: a singly linked list of integers, saved durably, found and
// walked in another process, changed one node at a time. The node number i (from 0) has the value i; the list is complete
// or not there at all, except where setting() says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tenure::bench::list {

struct node {
  std::int64_t value;
  node* next;
};

// A walk over a list in memory: the sum of its values, as a sum that depends on their order would be.
[[nodiscard]] inline std::uint64_t walk(const node* at) {
  std::uint64_t sum = 0;
  for (; at != nullptr; at = at->next) sum = sum * 31 + static_cast<std::uint64_t>(at->value);
  return sum;
}

class contender {
 public:
  explicit contender(std::filesystem::path directory) : directory_(std::move(directory)) {}
  virtual ~contender() = default;
  contender(const contender&) = delete;
  contender& operator=(const contender&) = delete;

  [[nodiscard]] virtual std::string setting() const = 0;
  // In one process: prepare, what a program that has run before has done already; build, the list in memory, wherever the
  // contender has it there; then save, durable on return.
  virtual void prepare(std::uint64_t /*nodes*/) {}
  virtual void build(std::uint64_t /*nodes*/) {}
  virtual void save(std::uint64_t nodes) = 0;
  // Bytes that save() wrote to the device, where it is known.
  [[nodiscard]] virtual std::optional<std::uint64_t> bytes_saved() const { return {}; }
  // In another: from opening to the end of the first walk.
  [[nodiscard]] virtual std::uint64_t open_and_walk() = 0;
  // Behind open_and_walk: finds the nodes that will be changed, if it wants to; then changes one, durably.
  virtual void before_updates() {}
  virtual void update(std::uint64_t index, std::int64_t value) = 0;
  virtual void close() = 0;

 protected:
  [[nodiscard]] std::string file(const char* name) const { return (directory_ / name).string(); }
  std::filesystem::path directory_;
};

using make_contender = std::unique_ptr<contender>(const std::filesystem::path& directory);

struct contender_kind {
  std::string name;
  make_contender* make;  // a null pointer where it is not built
  bool bare = false;     // a limit to compare with
};
[[nodiscard]] std::span<const contender_kind> all_contenders();

}  // namespace tenure::bench::list
