// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a commit stores of the heap's own objects (objects/stored_types.hpp): first of all descriptions of types, with the first
// objects of these types.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
  // An array of the heap's own: where it will be stored.
  template <class T>
  std::uint64_t store(const std::vector<T>& values) {
    return store(type_of<T>(), std::as_bytes(std::span(values)));
  }
  [[nodiscard]] heap::stored_text store_text(std::string_view text);
  // One that is stored, and that the commit takes away.
  void remove(std::uint64_t home, std::uint64_t size) { removed_.push_back({home, size}); }
  // Called after the last one: the table of types.
  void write_table(edited_pages& pages);

  // What is to be stored for them, with headers.
  struct object {
    std::uint64_t home;
    std::uint32_t type;
    std::vector<std::byte> bytes;
  };
  [[nodiscard]] const std::vector<object>& objects() const { return objects_; }
  struct removed_object {
    std::uint64_t home, size;
  };
  [[nodiscard]] const std::vector<removed_object>& removed() const { return removed_; }
  void committed() noexcept;

 private:
  std::uint64_t store(const type& of, std::span<const std::byte> bytes);

  open_database& in_;
  std::vector<object> objects_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> described_;  // number, and where its description is
  std::vector<removed_object> removed_;
  bool is_committed_ = false;
};

}  // namespace tenure::cache
