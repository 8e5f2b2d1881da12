// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages of a database as a commit will leave them: copies, whose differences it logs.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>

#include "cache/stored_database.hpp"

namespace tenure::cache {

class edited_pages {
 public:
  static constexpr std::size_t page_length = rvm::paged_segment::page_length;

  explicit edited_pages(stored_database& of) : of_(of) {}

  // For reading and writing; it lies in one page. Valid as long as this is.
  template <class T>
  [[nodiscard]] T& at(std::uint64_t offset) {
    assert(offset / page_length == (offset + sizeof(T) - 1) / page_length);
    return *reinterpret_cast<T*>(page_at(offset).now.data() + offset % page_length);
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t length = std::min<std::size_t>(bytes.size(), page_length - offset % page_length);
      std::memcpy(page_at(offset).now.data() + offset % page_length, bytes.data(), length);
      bytes = bytes.subspan(length);
      offset += length;
    }
  }
  // Calls f(offset of the page, what it was, what it is) for each page.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [number, copy] : pages_)
      f(number * page_length, std::span<const std::byte>(copy->was), std::span<const std::byte>(copy->now));
  }

 private:
  struct page {
    alignas(64) std::array<std::byte, page_length> was, now;
  };
  [[nodiscard]] page& page_at(std::uint64_t offset) {
    std::unique_ptr<page>& found = pages_[offset / page_length];
    if (found == nullptr) {
      found = std::make_unique<page>();
      found->was = found->now = of_.at<std::array<std::byte, page_length>>(offset / page_length * page_length);
    }
    return *found;
  }

  stored_database& of_;
  std::map<std::uint64_t, std::unique_ptr<page>> pages_;
};

}  // namespace tenure::cache
