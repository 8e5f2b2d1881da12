// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "resolve_command.hpp"

#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include <tenure/error.hpp>
#include <tenure/rvm/memory.hpp>
#include <tenure/transact_all.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "object_values.hpp"
#include "os/process.hpp"
#include "records/archive_beside.hpp"

namespace tenure::tools {

namespace {

std::optional<rvm::prepared_transaction> find_in_doubt(const std::string& log) {
  rvm::options how;
  how.mode = rvm::open_mode::read_only;
  return rvm::memory(log, how).in_doubt();
}

rvm::outcome outcome_wanted(const wanted_outcome& wanted, const rvm::prepared_transaction& what) {
  if (wanted.coordinator.empty()) return wanted.commit ? rvm::outcome::committed : rvm::outcome::aborted;
  store_options how;
  how.mode = rvm::open_mode::read_only;
  store coordinator(wanted.coordinator, how);
  return outcomes_of(coordinator)(what);
}

}  // namespace

bool end_prepared(const std::string& log, const rvm::prepared_transaction& seen, rvm::outcome said) {
  bool is_asked = false;
  rvm::options how;
  how.mode = rvm::open_mode::open;
  how.archive = rvm::archive_beside(os::real_disk(), log);
  how.in_doubt = [&](const rvm::prepared_transaction& found) {
    if (found.global_id != seen.global_id)
      throw error(errc::in_doubt, log + ": the transaction " + quoted(found.global_id) +
                                      " is prepared by now, in place of " + quoted(seen.global_id) +
                                      ", whose outcome was to be said");
    is_asked = true;
    return said;
  };
  rvm::memory(log, how).close();
  return is_asked;
}

int resolve_prepared(const std::string& path, const wanted_outcome& wanted, bool as_json, std::FILE* out) {
  const bool is_store = std::filesystem::is_directory(path);
  const std::string log = is_store ? path + "/log" : path;
  std::optional<rvm::prepared_transaction> found = find_in_doubt(log);
  bool ends = found && (wanted.commit || wanted.abort || !wanted.coordinator.empty());
  std::string outcome;
  if (ends) {
    const rvm::outcome said = outcome_wanted(wanted, *found);
    ends = end_prepared(log, *found, said);
    outcome = said == rvm::outcome::committed ? "committed" : "aborted";
    if (!ends) found.reset();  // somebody else has ended it
  }
  if (as_json) {
    nlohmann::json j{{"path", path}, {"in_doubt", nlohmann::json()}, {"outcome", nlohmann::json()}};
    if (found)
      j["in_doubt"] = {{"global_id", found->global_id},
                       {"label", found->label},
                       {"time", os::utc_text(found->time)},
                       {"ranges", found->ranges},
                       {"bytes", found->bytes}};
    if (ends) j["outcome"] = outcome;
    fmt::print(out, "{}\n", json_text(j));
    return exit_ok;
  }
  if (!found) {
    fmt::print(out, "{}: nothing is in doubt\n", path);
    return exit_ok;
  }
  fmt::print(out, "{}: {}, prepared at {}{}: {} bytes in {} ranges\n", path, tools::quoted(found->global_id),
             os::utc_text(found->time), found->label.empty() ? "" : ", label " + tools::quoted(found->label),
             found->bytes, found->ranges);
  if (ends)
    fmt::print(out, "{}\n", outcome);
  else
    fmt::print(out, "in doubt: say --coordinator STORE, or, if you know the outcome, --commit or --abort\n");
  return exit_ok;
}

}  // namespace tenure::tools
