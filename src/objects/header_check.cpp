// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/header_check.hpp"

#include <tenure/error.hpp>

#include "log/checksum.hpp"

namespace tenure::heap {

std::uint32_t header_checksum(const database_header& h) {
  return rvm::crc32c({reinterpret_cast<const std::byte*>(&h), offsetof(database_header, checksum)});
}

void require_right_header(const database_header& h, const header_place& of) {
  if (h.magic != database_header::right_magic)
    throw error(errc::damaged,
                of.file +
                    ": its header is no database header: it is damaged, or not the file that the store had there; put "
                    "the right one back, or restore the store from a backup, with all its files");
  if (h.version != database_header::right_version || h.abi != database_header::this_abi)
    throw error(errc::wrong_version, of.file + ": was written by version " + std::to_string(h.version) +
                                         " of the format, or on a machine of another kind; this program has version " +
                                         std::to_string(database_header::right_version) +
                                         (h.version == 1 ? "; `tenure upgrade` makes a new store of one of version 1"
                                                         : "; open it with a program of the version that wrote it"));
  if (h.checksum != header_checksum(h))
    throw error(errc::damaged, of.file + ": its header fails its checksum; restore the store from a backup");
  if (h.incompatible != 0 || (h.read_only_compatible != 0 && !of.is_read_only))
    throw error(errc::wrong_version, of.file + ": uses features that this version does not know");
  if (h.home != of.home || h.reservation != of.reservation)
    throw error(errc::damaged, of.file + ": its header was made for another address");
}

}  // namespace tenure::heap
