// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A transaction that was prepared by a process that has ended: its outcome is said when the memory is opened.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "os/process.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

outcome outcome_of(const options& how, const std::string& log_path, const prepared_transaction& what) {
  if (how.in_doubt) return how.in_doubt(what);
  throw error(errc::in_doubt, log_path + ": the transaction \"" + what.global_id + "\" was prepared at " +
                                  os::utc_text(what.time) +
                                  ", and its outcome is not known; ask who coordinates it, and say it with "
                                  "options::in_doubt, or `tenure resolve`; until then, this can only be read");
}

// As one transaction of explicit ranges, whatever it was before [rvm.prepared.redo].
void memory_state::redo_prepared(const prepared_contents& found) {
  std::vector<std::shared_ptr<region_state>> regions;
  for (std::size_t n = 0; n < found.segments.size(); ++n) {
    const prepared_contents::segment& s = found.segments[n];
    const std::string path = absolute_segment_path(opening_.path(), s.path);
    std::uint64_t end = 0;
    for (const prepared_contents::range& r : found.ranges)
      if (r.segment == n) end = std::max(end, r.offset + r.bytes.size());
    if (!s.raw && mapper_->describe(path).id != s.id)
      throw error(errc::wrong_log, path + ": is not the segment that the prepared transaction \"" +
                                       found.what.global_id + "\" has changed; put the right one back");
    if (!s.raw && mapper_->length_of(path, false) < end) (void)mapper_->grow_segment(path, end);
    map_options how;
    how.raw = s.raw;
    regions.push_back(mapper_->map(path, how));
  }
  transaction_state& tx = begin(restore_mode::restore);
  try {
    tx.set_label(found.what.label);
    for (const prepared_contents::range& r : found.ranges) {
      std::byte* const to = regions[r.segment]->base + r.offset;
      tx.set_range(to, r.bytes.size());
      std::memcpy(to, r.bytes.data(), r.bytes.size());
    }
    (void)tx.commit(commit_mode::flush);
  } catch (...) {
    tx.drop();
    throw;
  }
  for (const auto& each : regions) mapper_->unmap(*each);
}

}  // namespace tenure::rvm
