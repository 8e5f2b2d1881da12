// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes a backup of a log and its segments, which may be in use, also by this process. Takes no lock but a hold. The log's
// segments are copied while they change; then everything that was committed since the hold was taken is replayed on the
// copies [rvm.backup].
#pragma once

#include <functional>
#include <string>

#include <tenure/rvm/backup.hpp>

#include "os/file.hpp"

namespace tenure::rvm {

// `directory`: a new one, or an empty one. The backup is a log of the same name there, closed, with its segments; or what
// backup_options::since says. Throws errc::bad_option if a segment is not in the log's directory or below; errc::in_use if the log is
// replaced by another one meanwhile. `require_whole`: called when the log is known; throws if it is being replaced, and not all files
// are new yet.
backup_report back_up(os::disk& disk, const std::string& log_path, const std::string& directory,
                      const backup_options& how, const std::function<void()>& require_whole = {});

}  // namespace tenure::rvm
