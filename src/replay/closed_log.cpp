// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/closed_log.hpp"

#include "log/log_files.hpp"

namespace tenure::rvm {

void make_closed_log(os::disk& disk, const std::string& path, const manifest& like, const identity& id, lsn tail,
                     const std::map<std::string, segment*>& segments) {
  for (const auto& [logged, s] : segments) s->note_not_in_log();
  log_options how;
  how.size = like.size;
  how.max_size = like.max_size;
  how.block_size = like.block_size;
  how.permissions = like.permissions;
  (void)log_files::create(disk, path, how, {}, [&](manifest& status) {
    status.log_id = id;
    status.generation = like.generation;
    status.first = tail == like.first ? tail : 0;  // what was before is in another log
    status.head = status.tail = tail;
    status.totals = like.totals;
    status.segments.clear();
    for (const listed_segment& listed : like.segments)
      if (segments.contains(listed.path_text)) status.segments.push_back(listed);
    for (const auto& [logged, s] : segments) s->add_to(status);
  });
}

}  // namespace tenure::rvm
