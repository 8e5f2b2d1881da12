// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The archive of a store, for commands that write to the store. Without it the log would be shortened, and what it had would be
// missing in the archive.
#pragma once

#include <optional>
#include <string>

#include <tenure/rvm/log_options.hpp>

namespace tenure::tools {

// `wanted`: its path; empty: the log's and ".archive", if that is there. Forgets nothing that the archive has.
[[nodiscard]] std::optional<rvm::archive_options> archive_beside(const std::string& log,
                                                                 const std::string& wanted = {});

}  // namespace tenure::tools
