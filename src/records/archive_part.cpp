// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/archive_part.hpp"

#include <zstd.h>

#include <cstring>
#include <vector>

#include "log/checksum.hpp"
#include "records/group.hpp"

namespace tenure::rvm {

std::optional<archive_part> archive_part::find(os::disk& disk, const std::string& archive, std::uint64_t slot,
                                               os::access how) {
  const std::string path = part_path(archive, slot);
  if (!disk.exists(path)) return std::nullopt;
  archive_part found(path, disk.open(path, how));
  part_header header;
  const bool is_whole = found.file().read_at(0, bytes_of(header)) == sizeof header;
  if (is_whole && is_valid(header)) {
    found.header_ = header;
    found.number_ = header.part;
  } else if (is_whole && is_of_later_version(header)) {
    found.damage_ = path + " was written by a later version of this library";
    return found;
  } else {
    found.find_number();
  }
  if (found.number_ == 0)
    found.damage_ =
        path + " is damaged: its header is not valid, and no frame is in it; or it is no part of an archive";
  else if (found.number_ % archive_parts != slot)
    found.damage_ = path + " is part " + std::to_string(found.number_) + " of the archive, and belongs to " +
                    part_path(archive, found.number_);
  return found;
}

void archive_part::find_number() {
  std::uint64_t at = sizeof(part_header);
  frame_header first;
  if (find_frame(at, first)) number_ = first.part;
}

bool archive_part::find_frame(std::uint64_t& at, frame_header& found) const {
  const auto is_here = [&](std::uint64_t place) {
    return found.magic == frame_magic && is_valid(found, number_ != 0 ? number_ : found.part, place);
  };
  if (file_->read_at(at, bytes_of(found)) == sizeof found && is_here(at)) return true;
  // Damage: looks for the next header. Its checksum, and the place that it names, prove that it is one.
  std::vector<std::byte> window(std::size_t{1} << 20);
  for (;;) {
    const std::size_t length = file_->read_at(at, window);
    std::size_t i = 0;
    for (; i + sizeof found <= length; i += 8) {
      std::memcpy(&found, window.data() + i, sizeof found);
      if (is_here(at + i)) {
        at += i;
        return true;
      }
    }
    if (i == 0) return false;
    at += i;
  }
}

// Without a header: by the group with which the first whole frame begins.
bool archive_part::is_of(const identity& log) const {
  if (header_) return header_->log_id == log;
  frame_header frame;
  for (std::uint64_t at = sizeof(part_header); find_frame(at, frame); at += sizeof frame) {
    const char* why = nullptr;
    const auto stretch = content(at + sizeof frame + frame.index_length, frame.stretch_length, frame.stretch_checksum,
                                 frame.stretch_plain, why);
    group_header group;
    if (stretch) return read_group_header(*stretch, {short_log_id(log), frame.from, frame.block_size}, group);
  }
  return false;
}

std::optional<std::vector<std::byte>> archive_part::content(std::uint64_t at, std::size_t length,
                                                            std::uint32_t checksum, std::size_t plain_length,
                                                            const char*& why) const {
  std::vector<std::byte> stored(length);
  if (file_->read_at(at, stored) != length) {
    why = "is cut off";
    return std::nullopt;
  }
  if (crc32c(stored) != checksum) {
    why = "does not match its checksum";
    return std::nullopt;
  }
  std::vector<std::byte> plain(plain_length);
  const std::size_t got = ZSTD_decompress(plain.data(), plain_length, stored.data(), length);
  if (ZSTD_isError(got) != 0 || got != plain_length) {
    why = "cannot be decompressed";
    return std::nullopt;
  }
  return plain;
}

}  // namespace tenure::rvm
