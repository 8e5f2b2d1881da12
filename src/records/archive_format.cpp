// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/archive_format.hpp"

#include <zstd.h>

#include <span>

#include "log/checksum.hpp"
#include "os/process.hpp"

namespace tenure::rvm {

std::string archive_path(const std::string& log_path, const std::string& wanted) {
  return wanted.empty() ? log_path + ".archive" : os::absolute_path(wanted);
}
std::string part_path(const std::string& archive, std::uint64_t part) {
  return archive + "." + std::to_string(part % archive_parts);
}

static bool has_checksum(const part_header& header) noexcept {
  return header.magic == archive_magic && header.endian == endian_mark && header.part != 0 &&
         header.checksum == header_checksum(header, offsetof(part_header, checksum));
}
static bool is_known(const part_header& header) noexcept {
  return header.version == archive_version && (header.incompatible & ~feature_changes) == 0;
}
bool is_valid(const part_header& header) noexcept { return has_checksum(header) && is_known(header); }
bool is_of_later_version(const part_header& header) noexcept { return has_checksum(header) && !is_known(header); }
bool is_valid(const frame_header& header, std::uint64_t part, std::uint64_t offset) noexcept {
  return header.magic == frame_magic && header.part == part && header.offset == offset &&
         header.checksum == crc32c(std::as_bytes(std::span{&header, 1}).subspan(8)) && header.from < header.to &&
         header.stretch_plain == header.to - header.from && header.stretch_plain <= max_stretch &&
         header.index_plain <= 2 * max_stretch && header.index_length <= ZSTD_compressBound(2 * max_stretch) &&
         header.stretch_length <= ZSTD_compressBound(max_stretch) && header.block_size >= 512 &&
         header.block_size <= 4096 && (header.block_size & (header.block_size - 1)) == 0;
}

}  // namespace tenure::rvm
