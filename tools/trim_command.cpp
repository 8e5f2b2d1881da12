// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "trim_command.hpp"

#include <fmt/format.h>

#include <tenure/store.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "progress_line.hpp"
#include "records/archive_beside.hpp"

namespace tenure::tools {

int trim_store(const std::string& directory, bool as_json, std::FILE* out, progress_line* progress) {
  const auto show = [progress](const rvm::progress& p) {
    if (progress != nullptr) progress->show(p.phase, p.done, p.total);
  };
  store_options how;
  how.mode = rvm::open_mode::open;
  how.memory.archive = rvm::archive_beside(os::real_disk(), directory + "/log");
  how.memory.on_progress = show;
  store opened(directory, how);
  const std::uint64_t bytes = opened.trim(show);
  opened.close();
  if (progress != nullptr) progress->hide();
  if (as_json)
    fmt::print(out, "{}\n", json_text({{"store", directory}, {"bytes", bytes}}));
  else
    fmt::print(out, "{}: {} bytes of free blocks use no disk space now\n", directory, bytes);
  return exit_ok;
}

}  // namespace tenure::tools
