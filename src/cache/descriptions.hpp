// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of types that a commit stores with the first objects of these types. They are objects of the heap's own, as in
// objects/stored_types.hpp.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cache/databases.hpp"
#include "cache/edited_pages.hpp"
#include "objects/stored_types.hpp"

namespace tenure::cache {

class descriptions {
 public:
  explicit descriptions(open_database& in) : in_(in) {}
  ~descriptions();
  descriptions(const descriptions&) = delete;
  descriptions& operator=(const descriptions&) = delete;

  // The type, and those in it, if they have no description yet.
  void describe(std::uint32_t index);
  // Called after the last one: the table of types.
  void write_table(edited_pages& pages);

  // What is to be stored for them, with headers.
  struct object {
    std::uint64_t home;
    std::uint32_t type;
    std::vector<std::byte> bytes;
  };
  [[nodiscard]] const std::vector<object>& objects() const { return objects_; }
  // The table that a larger one has replaced; 0: none.
  [[nodiscard]] std::uint64_t replaced() const { return replaced_; }
  [[nodiscard]] std::uint64_t replaced_size() const { return replaced_size_; }
  void committed() noexcept;

 private:
  // Returns where the object will be stored.
  template <class T>
  std::uint64_t store(const std::vector<T>& values);
  [[nodiscard]] heap::stored_text store_text(std::string_view text);

  open_database& in_;
  std::vector<object> objects_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> described_;  // number, and where its description is
  std::uint64_t replaced_ = 0, replaced_size_ = 0;
  bool is_committed_ = false;
};

}  // namespace tenure::cache
