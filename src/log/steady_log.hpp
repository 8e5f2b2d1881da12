// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A log that stays as it is for somebody who reads it: what it has now is not freed meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "log/log_files.hpp"
#include "log/log_hold.hpp"

namespace tenure::rvm {

class steady_log {
 public:
  // Holds the log, which a process may be using. Where no file can be made beside it, takes its lock instead, so that
  // nobody uses it (errc::in_use if somebody does).
  steady_log(os::disk& disk, const std::string& path, const std::string& purpose);

  // From here on nothing is freed.
  [[nodiscard]] lsn position() const { return hold_ ? hold_->position() : locked_->status().head; }

 private:
  std::optional<log_hold> hold_;
  std::unique_ptr<log_files> locked_;
};

}  // namespace tenure::rvm
