// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The counters, in the form for the user and in the form of the log's manifest.
#include <algorithm>

#include "rvm/memory_state.hpp"

namespace tenure::rvm {

statistics memory_state::stats() const {
  statistics s;
  if (writing_) writing_->transactions.add_to(s);
  const counters& c = count_;
  s.aborts = c.aborts.get();
  s.ranges_logged = c.ranges_logged.get();
  s.bytes_logged = c.bytes_logged.get();
  s.inter_transactions_saved = c.inter_transactions_saved.get();
  s.inter_bytes_saved = c.inter_bytes_saved.get();
  s.batches = s.syncs = c.batches.get();
  s.log_bytes_written = c.log_bytes_written.get();
  s.log_used_max = c.log_used_max.get();
  s.log_grown = c.log_grown.get();
  s.incremental_truncations = c.incremental_truncations.get();
  s.epoch_truncations = c.epoch_truncations.get();
  s.incremental_bytes_reclaimed = c.incremental_bytes_reclaimed.get();
  s.epoch_bytes_reclaimed = c.epoch_bytes_reclaimed.get();
  s.truncation_blocked = c.truncation_blocked.get();
  s.truncation_waits = c.truncation_waits.get();
  s.pages_written = c.pages_written.get();
  s.segment_bytes_written = c.segment_bytes_written.get();
  s.segment_syncs = c.segment_syncs.get();
  s.status_writes = c.status_writes.get();
  s.private_pages_dropped = c.private_pages_dropped.get();
  s.private_pages_kept = c.private_pages_kept.get();
  s.archived_log_bytes = c.archived_log_bytes.get();
  s.archive_bytes_written = c.archive_bytes_written.get();
  s.undeclared_writes = c.undeclared_writes.get();
  s.damaged_pages = c.damaged_pages.get();
  s.bulk_runs = c.bulk_runs.get();
  s.bulk_bytes = c.bulk_bytes.get();
  s.cleared_bytes = c.cleared_bytes.get();
  s.flush_calls = c.flush_calls.get();
  s.truncate_calls = c.truncate_calls.get();
  s.write_ns = c.write_ns.get();
  s.truncation_ns = c.truncation_ns.get();
  const auto& from = c.tracking;
  auto& to = s.tracking;
  to.commits = from.commits.get();
  to.aborts = from.aborts.get();
  to.traps = from.traps.get();
  to.trapped_pages = from.trapped_pages.get();
  to.announced_pages = from.announced_pages.get();
  to.hot_pages_compared = from.hot_pages_compared.get();
  to.scans = from.scans.get();
  to.scanned_pages = from.scanned_pages.get();
  to.private_scans = from.private_scans.get();
  to.private_pages_compared = from.private_pages_compared.get();
  to.whole_openings = from.whole_openings.get();
  to.widened_traps = from.widened_traps.get();
  to.compared_pages = from.compared_pages.get();
  to.changed_pages = from.changed_pages.get();
  to.changed_ranges = from.changed_ranges.get();
  to.changed_bytes = from.changed_bytes.get();
  to.before_images = from.before_images.get();
  to.before_images_made = from.before_images_made.get();
  to.pages_given_back = from.pages_given_back.get();
  to.untracked_pages = from.untracked_pages.get();
  to.anonymous_pages = from.anonymous_pages.get();
  to.stray_writes = from.stray_writes.get();
  to.unseen_stores = from.unseen_stores.get();
  to.audited_pages = from.audited_pages.get();
  if (writing_ && !opening_.is_closed()) {
    s.log_size = log_->length();
    s.log_used = log_->window().used();
    s.log_held = log_->held();
    s.spooled_bytes = writing_->writer.spooled();
  }
  return s;
}

namespace {

// The place of each counter in the manifest.
struct stored_total {
  log_total slot;
  std::uint64_t log_totals::*field;
};
constexpr stored_total stored_totals[] = {
    {log_total::opened, &log_totals::opened},
    {log_total::recovered, &log_totals::recovered},
    {log_total::transactions, &log_totals::transactions},
    {log_total::log_bytes, &log_totals::log_bytes_written},
    {log_total::incremental_truncations, &log_totals::incremental_truncations},
    {log_total::epoch_truncations, &log_totals::epoch_truncations},
    {log_total::grown, &log_totals::log_grown},
    {log_total::no_flush_commits, &log_totals::no_flush_commits},
    {log_total::aborts, &log_totals::aborts},
    {log_total::intra_ranges_saved, &log_totals::intra_ranges_saved},
    {log_total::intra_bytes_saved, &log_totals::intra_bytes_saved},
    {log_total::inter_transactions_saved, &log_totals::inter_transactions_saved},
    {log_total::inter_bytes_saved, &log_totals::inter_bytes_saved},
    {log_total::batches, &log_totals::batches},
    {log_total::log_used_max, &log_totals::log_used_max},
    {log_total::truncation_waits, &log_totals::truncation_waits},
    {log_total::flush_calls, &log_totals::flush_calls},
    {log_total::truncate_calls, &log_totals::truncate_calls},
    {log_total::write_ns, &log_totals::write_ns},
    {log_total::truncation_ns, &log_totals::truncation_ns},
    {log_total::damaged_pages, &log_totals::damaged_pages},
};
static_assert(std::size(stored_totals) == static_cast<std::size_t>(log_total::end));

}  // namespace

log_totals memory_state::totals() const {
  log_totals all;
  for (const stored_total& t : stored_totals) all.*t.field = totals_at_open_[static_cast<std::size_t>(t.slot)];
  const statistics now = stats();
  all.transactions += now.flush_commits + now.no_flush_commits;
  all.no_flush_commits += now.no_flush_commits;
  all.aborts += now.aborts;
  all.intra_ranges_saved += now.intra_ranges_saved;
  all.intra_bytes_saved += now.intra_bytes_saved;
  all.inter_transactions_saved += now.inter_transactions_saved;
  all.inter_bytes_saved += now.inter_bytes_saved;
  all.batches += now.batches;
  all.log_bytes_written += now.log_bytes_written;
  all.log_used_max = std::max(all.log_used_max, now.log_used_max);
  all.log_grown += now.log_grown;
  all.truncation_waits += now.truncation_waits;
  all.incremental_truncations += now.incremental_truncations;
  all.epoch_truncations += now.epoch_truncations;
  all.flush_calls += now.flush_calls;
  all.truncate_calls += now.truncate_calls;
  all.write_ns += now.write_ns;
  all.truncation_ns += now.truncation_ns;
  all.damaged_pages += now.damaged_pages;
  return all;
}

total_slots memory_state::totals_to_store() const {
  total_slots slots = totals_at_open_;
  const log_totals all = totals();
  for (const stored_total& t : stored_totals) slots[static_cast<std::size_t>(t.slot)] = all.*t.field;
  return slots;
}

}  // namespace tenure::rvm
