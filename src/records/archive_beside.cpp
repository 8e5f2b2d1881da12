// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/archive_beside.hpp"

#include <cstdint>

#include "records/archive_format.hpp"

namespace tenure::rvm {

std::optional<archive_options> archive_beside(os::disk& disk, const std::string& log, const std::string& wanted) {
  archive_options how{.path = wanted, .max_size = ~std::uint64_t{0}};
  if (!wanted.empty()) return how;
  how.path = archive_path(log, {});
  for (std::uint64_t part = 0; part < archive_parts; ++part)
    if (disk.exists(part_path(how.path, part))) return how;
  return std::nullopt;
}

}  // namespace tenure::rvm
