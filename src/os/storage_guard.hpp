// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Mapped pages that the storage does not deliver, where the library itself reads them: an error instead of SIGBUS.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenure::os {

// While one lives, a page of a registered mapping (fault.hpp) that this thread uses, and that the storage does not deliver,
// becomes a page of zeros of this process, and is noted. The mapping must be private, and nobody may rely on its contents
// afterwards. If the thread has one already, that one notes everything, and the inner one nothing. Begins and ends in one thread.
class storage_guard {
 public:
  storage_guard() noexcept;
  ~storage_guard();
  storage_guard(const storage_guard&) = delete;
  storage_guard& operator=(const storage_guard&) = delete;

  // Throws std::errc::io_error, with the file and the offset, if this has noted a page.
  void require_all_read() const;
  // "FILE: the page at offset N cannot be read" of the first one; "": none.
  [[nodiscard]] std::string text() const;
  // The addresses of all that the thread's guard has noted in [begin, begin+length).
  [[nodiscard]] static std::vector<std::uintptr_t> noted_in(const void* begin, std::size_t length);

  // For the signal handler: whether the access can be repeated. `file` and `offset`: what was mapped there.
  [[nodiscard]] static bool replace(std::uintptr_t address, const char* file, std::uint64_t offset) noexcept;

 private:
  static constexpr std::size_t most_pages = 1024;

  std::array<std::uintptr_t, most_pages> pages_;
  std::size_t count_ = 0;
  std::array<char, 512> file_{};  // of the first one
  std::uint64_t offset_ = 0;
};

}  // namespace tenure::os
