// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/steady_log.hpp"

#include <tenure/error.hpp>

namespace tenure::rvm {

steady_log::steady_log(os::disk& disk, const std::string& path, const std::string& purpose) {
  try {
    hold_.emplace(log_hold::take(disk, path, purpose));
  } catch (const error& e) {
    if (e.code() != std::errc::read_only_file_system && e.code() != std::errc::permission_denied) throw;
    locked_ = log_files::open(disk, path, os::access::read_only);
  }
}

}  // namespace tenure::rvm
