// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "archive_beside.hpp"

#include <cstdint>

#include "os/file.hpp"
#include "records/archive_format.hpp"

namespace tenure::tools {

std::optional<rvm::archive_options> archive_beside(const std::string& log, const std::string& wanted) {
  rvm::archive_options how{.path = wanted, .max_size = ~std::uint64_t{0}};
  if (!wanted.empty()) return how;
  how.path = rvm::archive_path(log, {});
  for (std::uint64_t part = 0; part < rvm::archive_parts; ++part)
    if (os::real_disk().exists(rvm::part_path(how.path, part))) return how;
  return std::nullopt;
}

}  // namespace tenure::tools
