// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where two versions of a page differ, in words of 8 bytes: what automatic tracking logs. Words less than 24 bytes apart are
// one stretch: a range of its own costs that much of log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenure::rvm {

// Bytes [from, to) of the page.
struct stretch {
  std::uint32_t from, to;
};

// Whether anything differs. `length` is a multiple of 4096. Pages are aligned.
[[nodiscard]] bool pages_differ(const std::byte* now, const std::byte* then, std::size_t length) noexcept;
// Adds the stretches of the page in which they differ.
void find_differences(const std::byte* now, const std::byte* then, std::size_t length, std::vector<stretch>& found);
// Adds those within bytes [from, to), in words counted from there; the last may be shorter.
void find_differences_between(const std::byte* now, const std::byte* then, std::uint32_t from, std::uint32_t to,
                              std::vector<stretch>& found);

// For tests: false: without the processor's vector instructions from now on.
void use_vector_instructions(bool allowed) noexcept;

}  // namespace tenure::rvm
