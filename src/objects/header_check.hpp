// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Whether the header of a database is one that this program can use.
#pragma once

#include <cstdint>
#include <string>

#include "objects/format.hpp"

namespace tenure::heap {

// Of the part of the header that is constant.
[[nodiscard]] std::uint32_t header_checksum(const database_header& h);

// Where the header is, and what the segment's own header says.
struct header_place {
  const std::string& file;
  std::uint64_t home, reservation;
  bool is_read_only;
};
// Throws errc::damaged, or errc::wrong_version, with what to do.
void require_right_header(const database_header& h, const header_place& of);

}  // namespace tenure::heap
