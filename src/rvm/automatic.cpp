// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Automatic transactions: what concerns all tracked regions of a memory.
#include <algorithm>
#include <cassert>

#include "os/fault.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

region_state::region_state() = default;
region_state::~region_state() = default;

namespace {

// Calls f for each region that is tracked automatically.
template <class F>
void for_each_tracked(const region_table::table& regions, F&& f) {
  for (const auto& r : regions)
    if (r->tracker != nullptr) f(*r, *r->tracker);
}

}  // namespace

transaction_state* memory_state::begin_automatic() {
  require_writable();
  writer->require_usable();
  os::unblock_faults();
  automatic.take_for_transaction();
  try {
    require_writable();  // it may have been closed meanwhile
    writer->require_usable();
    give_back_written_pages(false);
    ++automatic_transactions;
    std::size_t stray = 0;
    const region_state* where = nullptr;
    for_each_tracked(regions.all(), [&](const region_state& r, region_tracker& tracker) {
      const std::size_t found = tracker.begin(automatic_transactions);
      if (found != 0) where = &r;
      stray += found;
    });
    if (stray != 0 && !how.on_stray_write)
      throw error(errc::stray_write,
                  where->segment_path + ": " + std::to_string(stray) + (stray == 1 ? " page was" : " pages were") +
                      " written since the last automatic transaction ended; the old bytes have been put back; write in "
                      "automatic transactions only, or set options::on_stray_write to see each (tracking_strict finds "
                      "the place in the program)");
    transaction_state& tx = claim();
    tx.id.store(last_id.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    tx.mode.store(restore_mode::restore, std::memory_order_relaxed);
    tx.automatic = true;
    tracking->in_transaction.store(true, std::memory_order_release);
    return &tx;
  } catch (...) {
    automatic.give();
    throw;
  }
}

void transaction_state::set_tracked_range(region_state& in, std::byte* from, std::size_t length) {
  if (!automatic || settled)
    throw error(errc::wrong_tracking,
                "transaction " + std::to_string(id) + ": the region of " + in.segment_path +
                    " is tracked automatically; change it in a transaction begun with begin_automatic()");
  if (!preparing && !collected) return in.tracker->announce(from, length);
  in.tracker->log_as_is(from, length);
  refer_to_pages(in, from, length);
  ranges.push_back({from, length, &in});
}

void transaction_state::refer_to_pages(region_state& in, const std::byte* from, std::size_t length) {
  const std::uint64_t offset = in.offset + static_cast<std::uint64_t>(from - in.base);
  for (std::uint64_t page = offset / redo_page; page <= (offset + length - 1) / redo_page; ++page)
    if (const auto known = touched.all(); known.empty() || known.back().page != page || known.back().in != in.in)
      touched.add({in.in, page}, owner->open_mutex);
}

void memory_state::collect_changes(transaction_state& tx) {
  forget_changes(tx);
  try {
    for_each_tracked(regions.all(), [&](region_state& r, region_tracker& tracker) {
      const std::size_t before = tx.changes.size();
      tracker.collect(tx.changes);
      for (const memory_range& change : std::span(tx.changes).subspan(before)) {
        tx.refer_to_pages(r, change.address, change.length);
        tx.ranges.push_back({change.address, change.length, &r});
      }
    });
  } catch (...) {
    forget_changes(tx);
    throw;
  }
}

void memory_state::forget_changes(transaction_state& tx) noexcept {
  tx.collected = false;
  tx.changes.clear();
  if (tx.ranges.empty()) return;
  // What is left was sorted, or not, as before; merging again does no harm.
  std::erase_if(tx.ranges, [](const auto& range) { return range.in->tracker != nullptr; });
  tx.merged = 0;
}

bool memory_state::end_automatic_changes(transaction_state& tx) {
  std::size_t twins = 0;
  for_each_tracked(regions.all(), [&](region_state&, region_tracker& tracker) {
    tracker.committed(tx.changes);
    twins += tracker.twins();
  });
  ++count.tracking.commits;
  tx.settled = true;
  tracking->in_transaction.store(false, std::memory_order_release);
  give_back_written_pages(false);
  const bool many = twins > many_twins;
  if (many) many_twins = twins + twins / 2;  // for those that truncation cannot take away
  automatic.give();
  return many;
}

void memory_state::put_back_committed_image(transaction_state& tx) noexcept {
  bool whole = true;
  for_each_tracked(regions.all(), [&](region_state&, region_tracker& tracker) { whole = tracker.aborted() && whole; });
  if (!whole) {
    tracking->failed.store(true, std::memory_order_release);
    writer->fail(not_restored);
  }
  ++count.tracking.aborts;
  tx.settled = true;
  tracking->in_transaction.store(false, std::memory_order_release);
  give_back_written_pages(false);
  automatic.give();
}

void memory_state::give_back_written_pages(bool in_truncation) noexcept {
  bool any = false;
  for_each_tracked(regions.all(),
                   [&](region_state&, region_tracker& tracker) { any = any || tracker.has_written_pages(); });
  if (!any) return;
  const auto give_back = [&] {
    std::size_t twins = 0;
    for_each_tracked(regions.all(), [&](region_state&, region_tracker& tracker) {
      try {
        if (tracker.has_written_pages()) tracker.give_back_written();
      } catch (...) {  // only memory is not given back
      }
      twins += tracker.twins();
    });
    many_twins = std::max(limits.most_twins, twins + twins / 2);
  };
  if (in_truncation) return give_back();
  truncation->if_idle(give_back);
}

}  // namespace tenure::rvm
