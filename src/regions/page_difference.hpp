// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where two versions of a page differ, in words of 8 bytes: what automatic tracking logs. Words with a single one between them
// are one stretch: that word takes 4 bytes more of log than a range of its own, and less time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tenure::rvm {

// Bytes [from, to) of the page.
struct stretch {
  std::uint32_t from, to;
};

// Whether anything differs. `length` is a multiple of 4096. Pages are aligned.
[[nodiscard]] bool pages_differ(const std::byte* now, const std::byte* then, std::size_t length) noexcept;

// Of one page after the other.
class page_difference {
 public:
  // Compares a page; the two must stay as they are while stretches are asked for. Returns whether they differ.
  bool compare(const std::byte* now, const std::byte* then, std::size_t length);
  // The same, part by part: bytes [from, to), a multiple of 16 each. What is not compared counts as equal.
  void begin_parts(const std::byte* now, const std::byte* then, std::size_t length);
  bool compare_part(std::size_t from, std::size_t to);
  // Adds the stretches within bytes [from, to) in which they differ. Where a word is in it with a part only, that part counts.
  void add_stretches(std::uint32_t from, std::uint32_t to, std::vector<stretch>& found) const;
  // The first of these bytes that differ, up to the next one that does not.
  [[nodiscard]] std::optional<stretch> first_bytes(std::uint32_t from, std::uint32_t to) const noexcept;

 private:
  void remember(const std::byte* now, const std::byte* then) noexcept;
  [[nodiscard]] const std::byte* now() const noexcept;
  [[nodiscard]] bool bytes_differ(std::uint32_t from, std::uint32_t to) const noexcept;

  const std::byte* then_ = nullptr;
  std::uintptr_t now_after_then_ = 0;  // bytes; the page's address would keep an object [heap.collection.addresses]
  std::vector<std::uint64_t> differ_;  // a bit for each word
};

// For tests: false: without the processor's vector instructions from now on.
void use_vector_instructions(bool allowed) noexcept;

}  // namespace tenure::rvm
