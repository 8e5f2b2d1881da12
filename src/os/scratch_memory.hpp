// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Zeroed memory for tables that may be larger than the machine's memory. Of large ones, pages that are not in use are in an
// unnamed file: the kernel writes them there when it needs their memory.
#pragma once

#include <cstddef>
#include <string>

namespace tenure::os {

class scratch_memory {
 public:
  scratch_memory() = default;
  // `directory`: on whose file system the file is made, if one is needed. Throws the error of the system if there is no
  // space.
  scratch_memory(const std::string& directory, std::size_t length);
  ~scratch_memory();
  scratch_memory(scratch_memory&& other) noexcept;
  scratch_memory& operator=(scratch_memory&& other) noexcept;

  [[nodiscard]] std::byte* data() const { return data_; }
  // At least what was asked for.
  [[nodiscard]] std::size_t length() const { return length_; }

  // For tests: from this length on a file is used.
  static void use_file_from(std::size_t length) noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace tenure::os
