// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rvm/checksum.hpp"

#include <algorithm>
#include <climits>

#include <isa-l/crc.h>

namespace tenure::rvm {

std::uint32_t crc32c(std::span<const std::byte> of) noexcept {
  std::uint32_t crc = 0xffffffff;
  while (!of.empty()) {  // ISA-L takes an int
    const std::size_t part = std::min<std::size_t>(of.size(), INT_MAX);
    // ISA-L's parameter is not const, but it only reads.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(of.data()));
    crc = crc32_iscsi(data, static_cast<int>(part), crc);
    of = of.subspan(part);
  }
  return ~crc;
}

}  // namespace tenure::rvm
