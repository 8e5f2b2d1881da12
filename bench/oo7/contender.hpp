// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What OO7 asks of a system. Objects run the one program of operations.hpp; a system of records has a program of its own.
//
// Order of calls: create; then, if it is persistent in another process, open … close. Operations run between begin and
// commit; a checkpoint commits, durably where anything is durable, and begins again. Everything throws on failure.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "oo7/configuration.hpp"
#include "worlds/breakdown.hpp"

namespace tenure::bench::oo7 {

class contender {
 public:
  contender(const std::filesystem::path& directory, const configuration& how) : directory_(directory), how_(how) {}
  virtual ~contender() = default;
  contender(const contender&) = delete;
  contender& operator=(const contender&) = delete;

  [[nodiscard]] virtual std::string setting() const = 0;
  [[nodiscard]] virtual bool persistent() const { return true; }
  // Generates the database and leaves it open.
  virtual void create() = 0;
  virtual void open() = 0;
  virtual void close() = 0;

  virtual void begin() = 0;
  virtual void commit() = 0;
  virtual void checkpoint() = 0;
  // The count that the benchmark defines. The caller has called restart_random().
  virtual std::uint64_t run(operation what) = 0;
  virtual totals sum() = 0;
  // Where the time went, and what was made persistent by type, as far as the system tells: since it was opened.
  [[nodiscard]] virtual breakdown_counts breakdown() const { return {}; }

 protected:
  std::filesystem::path directory_;
  configuration how_;
};

using make_contender = std::unique_ptr<contender>(const std::filesystem::path& directory, const configuration& how);
make_contender make_plain;  // for cases of its own

struct contender_kind {
  std::string name;
  make_contender* make;                // a null pointer where it is not built
  const char* build_environment = "";  // a variable that is set to 1 while databases are made
  unsigned most_runs_of_changes = 0;   // for one whose updates take minutes; 0: as many as all
  bool only_if_named = false;          // not among those that are run if nothing is said
};
// All that there are, the floor first.
[[nodiscard]] std::span<const contender_kind> all_contenders();

}  // namespace tenure::bench::oo7
