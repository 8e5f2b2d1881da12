// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/closed_log.hpp"

#include "log/log_files.hpp"

namespace tenure::rvm {

void make_closed_log(os::disk& disk, const std::string& path, const manifest& like, const identity& id, lsn tail,
                     const std::map<std::string, segment*>& segments,
                     const std::optional<prepared_contents>& in_doubt) {
  for (const auto& [logged, s] : segments) s->note_not_in_log();
  log_options how;
  how.size = like.size;
  how.max_size = like.max_size;
  how.block_size = like.block_size;
  how.permissions = like.permissions;
  const auto log = log_files::create(disk, path, how, {}, [&](manifest& status) {
    status.log_id = id;
    status.generation = like.generation;
    status.first = tail == like.first ? tail : 0;  // what was before is in another log
    status.head = status.tail = tail;
    status.totals = like.totals;
    status.segments.clear();
    for (const listed_segment& listed : like.segments)
      if (const auto found = segments.find(listed.path_text);
          found != segments.end() && found->second->is_raw() == listed.is_raw())
        status.segments.push_back(listed);
    for (const auto& [logged, s] : segments) s->add_to(status);
    if (!in_doubt) return;
    status.clean = 0;
    status.incompatible = feature_changes;
    status.tail = tail + status.block_size;  // what is there at least
  });
  if (!in_doubt) return;
  const auto groups = moved_to({id, like.generation, like.block_size}, tail, *in_doubt);
  const std::vector<os::const_bytes> parts(groups.begin(), groups.end());
  std::uint64_t needed = 0;
  for (const os::const_bytes part : parts) needed += part.size();
  while (log->length() < needed) log->extend(needed, log->status());
  log->write_durably(tail, parts);
}

}  // namespace tenure::rvm
