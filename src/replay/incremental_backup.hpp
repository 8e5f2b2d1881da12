// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes an incremental backup: the stretch of log from where an earlier backup ends up to now, as an archive, and what
// restoring needs to know of the segments that it changes. The log may be in use [rvm.backup.incremental].
#pragma once

#include <string>

#include <tenure/rvm/backup.hpp>

#include "os/file.hpp"

namespace tenure::rvm {

// As back_up(), with backup_options::since.
backup_report back_up_since(os::disk& disk, const std::string& log_path, const std::string& directory,
                            const backup_options& how);

}  // namespace tenure::rvm
