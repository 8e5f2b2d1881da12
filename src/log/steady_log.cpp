// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/steady_log.hpp"

#include <exception>
#include <system_error>

#include <tenure/error.hpp>

namespace tenure::rvm {

steady_log::steady_log(os::disk& disk, const std::string& path, const std::string& purpose) {
  try {
    hold_.emplace(log_hold::take(disk, path, purpose));
  } catch (const error& e) {
    const bool is_full = e.code() == std::errc::no_space_on_device;
    if (!is_full && e.code() != std::errc::read_only_file_system && e.code() != std::errc::permission_denied) throw;
    const std::exception_ptr no_space = is_full ? std::current_exception() : nullptr;
    try {
      locked_ = log_files::open(disk, path, os::access::read_only);
    } catch (const error&) {
      if (no_space) std::rethrow_exception(no_space);  // whoever has the log open need not end if there is space
      throw;
    }
  }
}

}  // namespace tenure::rvm
