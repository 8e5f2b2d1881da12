// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Structures, texts and other bytes one after the other, each padded with zeros to 8 bytes: the contents of some small files.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "log/format.hpp"
#include "os/file.hpp"

namespace tenure::rvm {

inline void put_bytes(std::vector<std::byte>& to, os::const_bytes from) {
  to.insert(to.end(), from.begin(), from.end());
  to.resize(round_up(to.size(), 8));
}
inline void put_text(std::vector<std::byte>& to, std::string_view text) {
  put_bytes(to, std::as_bytes(std::span(text)));
}
template <class T>
void put(std::vector<std::byte>& to, const T& from) {
  static_assert(std::is_trivially_copyable_v<T>);
  put_bytes(to, std::as_bytes(std::span{&from, 1}));
}

// Takes one part after the other. Nothing, or false: the bytes end before.
class part_taker {
 public:
  explicit part_taker(os::const_bytes from) : rest_(from) {}
  std::optional<os::const_bytes> take_bytes(std::uint64_t length) {
    if (length > rest_.size() || round_up(length, 8) > rest_.size()) return std::nullopt;
    const os::const_bytes taken = rest_.first(static_cast<std::size_t>(length));
    rest_ = rest_.subspan(static_cast<std::size_t>(round_up(length, 8)));
    return taken;
  }
  template <class T>
  bool take(T& into) {
    const auto bytes = take_bytes(sizeof into);
    if (bytes) std::memcpy(&into, bytes->data(), sizeof into);
    return bytes.has_value();
  }
  bool take_text(std::uint64_t length, std::string& into) {
    const auto bytes = take_bytes(length);
    if (bytes) into.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    return bytes.has_value();
  }
  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }

 private:
  os::const_bytes rest_;
};

}  // namespace tenure::rvm
