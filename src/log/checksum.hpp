// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// CRC32C, the checksum of everything that is stored. ISA-L computes it and chooses the machine's fastest instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenure::rvm {

[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> of) noexcept;

// The checksum of the first `covered` bytes of a trivially copyable header.
template <class T>
[[nodiscard]] std::uint32_t header_checksum(const T& header, std::size_t covered) noexcept {
  return crc32c(std::as_bytes(std::span{&header, 1}).first(covered));
}

}  // namespace tenure::rvm
