// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "adopt_command.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/rvm/memory.hpp>

#include "json_text.hpp"
#include "log/log_files.hpp"
#include "log_command.hpp"
#include "objects/verifier.hpp"
#include "os/file.hpp"
#include "progress_line.hpp"
#include "records/archive_beside.hpp"
#include "segments/segment_table.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

namespace {

rvm::options adopting(rvm::open_mode mode, const rvm::progress_callback& progress) {
  rvm::options how;
  how.mode = mode;
  how.background = false;
  how.copied = rvm::copied_files::adopt;
  how.on_progress = progress;
  return how;
}

// What the kernel refuses, such as a permission, is no damage, but for what the storage does not deliver.
void require_damage(const error& e) {
  const bool is_refused = e.code().category() != category() && e.code() != std::errc::io_error;
  if (is_refused || e.code() == errc::in_use || e.code() == errc::wrong_version) throw e;
}

// Without a store, the segments that the manifest lists are what can be checked.
std::vector<std::string> check_segments(const std::string& log, const rvm::progress_callback& progress) {
  std::vector<std::string> wrong;
  const std::vector<rvm::listed_segment> listed =
      rvm::log_files::open_unlocked(os::real_disk(), log)->status().segments;
  rvm::memory memory(log, adopting(rvm::open_mode::read_only, progress));
  for (const rvm::listed_segment& s : listed) {
    if (s.is_raw()) continue;  // it has no checksums
    const std::string file = rvm::absolute_segment_path(log, s.path_text);
    try {
      for (const std::uint64_t offset : memory.verify_segment(file))
        wrong.push_back(fmt::format("{}: the page at offset {} is damaged", file, offset));
    } catch (const error& e) {
      require_damage(e);
      wrong.emplace_back(e.what());
    }
  }
  return wrong;
}

}  // namespace

int adopt_copy(const std::string& path, bool as_json, std::FILE* out, progress_line* progress) {
  const bool is_store = std::filesystem::is_directory(path);
  const std::string log = is_store ? path + "/log" : path;
  if (rvm::log_files::open_unlocked(os::real_disk(), log)->find_copy().empty())
    throw error(errc::bad_option,
                log +
                    ": its files are where they were, or it was closed before they were copied: there "
                    "is nothing to adopt; open it");
  const auto show = [&](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  std::vector<std::string> wrong;
  try {
    wrong = is_store
                ? heap::verify(surveyed_store(path, show, rvm::copied_files::adopt).set(), heap::verified_by::reader)
                : check_segments(log, show);
  } catch (const error& e) {
    require_damage(e);
    wrong.emplace_back(e.what());
  }
  rvm::recovery_report recovered;
  std::string in_doubt;
  const bool is_adopted = wrong.empty();
  if (is_adopted) try {
      rvm::options how = adopting(rvm::open_mode::open, show);
      how.archive = rvm::archive_beside(os::real_disk(), log);
      rvm::memory memory(log, how);
      recovered = memory.recovery();
      for (const rvm::damaged_page& page : recovered.damaged)
        wrong.push_back(fmt::format("{}: the page at offset {} is damaged", page.segment_path, page.offset));
      memory.close();
    } catch (const error& e) {
      if (e.code() != errc::in_doubt) throw;
      in_doubt = e.what();
    }
  if (progress != nullptr) progress->hide();
  if (as_json) {
    fmt::print(out, "{}\n",
               json_text({{"log", log},
                          {"adopted", is_adopted},
                          {"transactions", recovered.transactions},
                          {"tail", recovered.tail},
                          {"in_doubt", !in_doubt.empty()},
                          {"wrong", wrong}}));
  } else {
    for (const std::string& what : wrong) fmt::print(out, "DAMAGED: {}\n", what);
    if (!in_doubt.empty())
      fmt::print(out, "{}: nothing is wrong, and it is adopted; {}\n", path, in_doubt);
    else if (wrong.empty())
      fmt::print(out, "{}: nothing is wrong; goes on from LSN {}, after {} transactions that were in the log\n", path,
                 recovered.tail, recovered.transactions);
    else if (is_adopted)
      fmt::print(out, "{}: is adopted, and goes on from LSN {}; but {} pages were found damaged then\n", path,
                 recovered.tail, wrong.size());
    else
      fmt::print(out, "{}: not adopted: {} things are wrong\n", path, wrong.size());
  }
  return wrong.empty() ? exit_ok : exit_damaged;
}

}  // namespace tenure::tools
