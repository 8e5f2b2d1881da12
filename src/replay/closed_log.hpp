// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The last step of a backup, and of a restore: the log that makes a directory of segments a whole [rvm.backup].
#pragma once

#include <map>
#include <optional>
#include <string>

#include "log/manifest.hpp"
#include "os/file.hpp"
#include "records/prepared_record.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

// Makes a log with this identity, closed and empty at `tail`, that is otherwise as `like`, and lists those of its segments
// that are there. `segments`: by logged path; no log has changes for them any more. `in_doubt`: it has this alone, and is not closed;
// if it cannot be written, the log does not open.
void make_closed_log(os::disk& disk, const std::string& path, const manifest& like, const identity& id, lsn tail,
                     const std::map<std::string, segment*>& segments,
                     const std::optional<prepared_contents>& in_doubt = std::nullopt);

}  // namespace tenure::rvm
