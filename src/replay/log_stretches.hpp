// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The groups of one log, wherever they are now: in incremental backups, in the archive, in the log itself. They are read
// oldest first, and each must begin where the one before it has ended [rvm.restore.no-gap].
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "log/durable_log.hpp"
#include "records/archive_reader.hpp"
#include "records/group.hpp"

namespace tenure::rvm {

class log_stretches {
 public:
  log_stretches(os::disk& disk, const identity& log_id) : disk_(disk), log_id_(log_id) {}

  // What is added first is read first. `path`: as archive_path(). `through`: it must have the log up to here, or more; 0:
  // whatever it has. Returns whether it has anything of this log.
  bool add_archive(const std::string& path, lsn through);
  // The groups in [from, to), which nobody changes meanwhile. `is_clean`: it was closed there. Throws errc::wrong_log if an
  // archive that was added before has another past, or goes on where the log was closed [rvm.archive.one-past].
  void add_log(const readable_log& log, lsn from, lsn to, bool is_clean);

  // Up to where all of them together should have the log; 0: there is none.
  [[nodiscard]] lsn end() const { return end_; }
  // Calls visit(group, its bytes) for each group from LSN `from` to the end, until visit returns false. Throws
  // errc::no_history where the next group is in none of them, with the LSNs that are missing, and errc::damaged where all
  // that have it are damaged.
  using visitor = std::function<bool(const group_view&, os::const_bytes)>;
  void walk(lsn from, const visitor& visit) const;

 private:
  struct source {
    std::unique_ptr<archive_reader> archive;  // or
    const readable_log* log;
    lsn from, to;
  };
  // Visits groups of the source, if it has the one at `at`.
  static void read(const source& in, lsn at, const visitor& visit);
  [[noreturn]] void refuse(lsn at, bool is_first) const;

  os::disk& disk_;
  const identity log_id_;
  lsn end_ = 0;
  std::vector<source> sources_;
};

}  // namespace tenure::rvm
