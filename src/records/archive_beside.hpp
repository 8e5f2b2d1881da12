// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The archive that is there, for whoever opens a log in place of the program that writes to it. Without it the log would be
// shortened, and what it had would be missing in the archive [rvm.archive.beside].
#pragma once

#include <optional>
#include <string>

#include <tenure/rvm/log_options.hpp>

#include "os/file.hpp"

namespace tenure::rvm {

// `wanted`: its path; empty: the log's and ".archive", if that is there. Forgets nothing that the archive has.
[[nodiscard]] std::optional<archive_options> archive_beside(os::disk& disk, const std::string& log,
                                                            const std::string& wanted = {});

}  // namespace tenure::rvm
