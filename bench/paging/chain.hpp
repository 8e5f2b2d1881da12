// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Databases as large as they are wanted: lists of objects that lie one behind the other, with numbers from 0 on.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <tenure/store.hpp>

namespace tenure::bench::paging {

template <std::size_t size>
struct link {
  link* next = nullptr;
  std::uint64_t number = 0;
  std::array<std::uint64_t, size / 8 - 2> text{};
};

// A root.
template <class Link>
struct chain {
  Link *first = nullptr, *last = nullptr;
  std::uint64_t length = 0;
};

// Appends this many, in transactions of at most 256 MiB.
template <class Link>
void append(store& in, chain<Link>& to, std::uint64_t links) {
  constexpr std::uint64_t most = (std::uint64_t{240} << 20) / sizeof(Link);  // headers take some, too
  while (links > 0) {
    const std::uint64_t some = std::min(links, most);
    in.transact([&] {
      for (std::uint64_t i = 0; i < some; ++i) {
        auto* const added = in.make<Link>();
        added->number = to.length++;
        added->text.fill(added->number + 1);  // no page is zero
        (to.last == nullptr ? to.first : to.last->next) = added;
        to.last = added;
      }
    });
    links -= some;
  }
}

// A sum of the numbers that depends on their order.
template <class Link>
[[nodiscard]] std::uint64_t walk(const chain<Link>& along) {
  std::uint64_t sum = 0;
  for (const Link* at = along.first; at != nullptr; at = at->next) sum = sum * 31 + at->number;
  return sum;
}
[[nodiscard]] inline std::uint64_t expected_sum(std::uint64_t length) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < length; ++i) sum = sum * 31 + i;
  return sum;
}

[[nodiscard]] inline std::string store_in(const std::filesystem::path& directory) {
  return (directory / "store").string();
}
[[nodiscard]] inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) all.push_back(entry.path());
  return all;
}

[[nodiscard]] inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tenure::bench::paging
