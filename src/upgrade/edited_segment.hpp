// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Bytes of a segment, changed in memory and written at once.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <type_traits>

#include "segments/segment.hpp"

namespace tenure::upgrading {

class edited_segment {
 public:
  explicit edited_segment(rvm::segment& of) : of_(of) {}

  void read(std::uint64_t at, os::bytes into) {
    for_each_part(at, into.size(), [&](page& p, std::size_t from, std::size_t length, std::size_t done) {
      std::memcpy(into.data() + done, p.bytes.data() + from, length);
    });
  }
  void write(std::uint64_t at, os::const_bytes from) {
    for_each_part(at, from.size(), [&](page& p, std::size_t to, std::size_t length, std::size_t done) {
      std::memcpy(p.bytes.data() + to, from.data() + done, length);
      p.is_changed = true;
    });
  }
  template <class T>
  [[nodiscard]] T get(std::uint64_t at) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    read(at, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  template <class T>
  void put(std::uint64_t at, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    write(at, std::as_bytes(std::span(&value, 1)));
  }
  void put_zeros(std::uint64_t at, std::uint64_t length) {
    constexpr std::array<std::byte, rvm::redo_page> zeros{};
    for (std::uint64_t done = 0; done < length; done += zeros.size())
      write(at + done, os::const_bytes(zeros).first(std::min<std::uint64_t>(zeros.size(), length - done)));
  }
  // Durable on return.
  void save() {
    for (const auto& [number, p] : pages_)
      if (p.is_changed) of_.write_pages(number, p.bytes);
    of_.finish_writes();
  }

 private:
  struct page {
    std::array<std::byte, rvm::redo_page> bytes;
    bool is_changed = false;
  };
  template <class F>
  void for_each_part(std::uint64_t at, std::size_t length, F&& f) {
    for (std::size_t done = 0; done < length;) {
      const std::uint64_t number = (at + done) / rvm::redo_page;
      const std::size_t from = (at + done) % rvm::redo_page;
      const std::size_t here = std::min<std::size_t>(length - done, rvm::redo_page - from);
      auto known = pages_.find(number);
      if (known == pages_.end()) {
        known = pages_.try_emplace(number).first;
        of_.read(number * rvm::redo_page, known->second.bytes);
      }
      f(known->second, from, here, done);
      done += here;
    }
  }

  rvm::segment& of_;
  std::map<std::uint64_t, page> pages_;
};

}  // namespace tenure::upgrading
