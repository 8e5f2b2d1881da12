// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A transaction that was prepared by a process that has ended: its outcome is said when the memory is opened.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "os/process.hpp"
#include "rvm/memory_state.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

outcome outcome_of(const options& how, const std::string& log_path, const prepared_transaction& what) {
  if (how.in_doubt) return how.in_doubt(what);
  throw error(errc::in_doubt, log_path + ": the transaction \"" + what.global_id + "\" was prepared at " +
                                  os::utc_text(what.time) +
                                  ", and its outcome is not known; ask who coordinates it, and say it with "
                                  "options::in_doubt, or `tenure resolve`; until then, this can only be read");
}

namespace {

// Of what was prepared, in this segment.
std::uint64_t end_of_ranges(const prepared_contents& found, const std::string& path) {
  std::uint64_t end = 0;
  for (const group_view& group : found.groups)
    for (const transaction_view& part : group.prepared())
      for (const range_view& range : part.ranges)
        if (group.segments()[range.segment].path == path) end = std::max(end, range.offset + range.value.size());
  return end;
}

}  // namespace

// As one transaction of explicit ranges, whatever it was before [rvm.prepared.redo].
void memory_state::redo_prepared(const prepared_contents& found) {
  writing& parts = writable();
  parts.queue.keep_from(found.from);
  std::vector<std::shared_ptr<region_state>> regions;
  std::map<std::string, region_state*> by_path;
  for (const group_view& group : found.groups)
    for (std::size_t n = 0; n < group.segments().size(); ++n) {
      const segment_name& name = group.segments()[n];
      if (by_path.contains(name.path)) continue;
      const std::string path = absolute_segment_path(opening_.path(), name.path);
      if (how_.give_up_segments && !disk_.exists(path)) {
        report_.given_up.push_back(path);
        by_path[name.path] = nullptr;
        continue;
      }
      // Opening and closing it here would let it go [rvm.segment.in-log].
      const segment_header header = name.raw ? segment_header{} : read_segment_header(disk_, path);
      if (!name.raw && header.segment_id != name.id)
        throw error(errc::wrong_log, path + ": is not the segment that the prepared transaction \"" +
                                         found.what.global_id + "\" has changed; put the right one back");
      if (!name.raw && header.length < group.lengths()[n]) (void)mapper_->grow_segment(path, group.lengths()[n]);
      map_options how;
      how.raw = name.raw;
      // Only a region that ends within a page has the last one of a raw segment.
      if (const std::uint64_t end = end_of_ranges(found, name.path); name.raw && end > mapper_->length_of(path, true))
        how.length = round_up(end, raw_block);
      regions.push_back(mapper_->map(path, how));
      by_path[name.path] = regions.back().get();
    }
  transaction_state& tx = begin(restore_mode::restore);
  try {
    tx.set_label(found.what.label);
    for (const group_view& group : found.groups)
      for (const transaction_view& part : group.prepared())
        for (const range_view& range : part.ranges) {
          const region_state* const in = by_path.at(group.segments()[range.segment].path);
          if (in == nullptr) continue;
          std::byte* const to = in->base + range.offset;
          tx.set_range(to, range.value.size());
          std::memcpy(to, range.value.data(), range.value.size());
        }
    (void)tx.commit(commit_mode::flush);
  } catch (...) {
    tx.drop();
    throw;
  }
  parts.queue.keep_nothing();
  // This truncates the log, too: what was prepared is of another generation than what follows.
  for (const auto& each : regions) mapper_->unmap(*each);
}

}  // namespace tenure::rvm
