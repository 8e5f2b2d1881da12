// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Writes pages straight to a segment instead of through the log.
//
// The pages are written and synced before the commit that names them. Until then they are free in the durable image, so
// a crash leaves bytes that nobody needs [rvm.bulk.before-commit]. All earlier commits are made durable first. One of
// them, still in the spool, may be the reason why a page is free; a crash that loses it would need the page's old bytes
// again [rvm.bulk.free].
#include <algorithm>
#include <cassert>
#include <map>

#include "os/asymmetric_fence.hpp"
#include "regions/region_tracker.hpp"
#include "replay/truncator.hpp"
#include "transactions/transaction_state.hpp"
#include "transactions/transaction_table.hpp"

namespace tenure::rvm {

void transaction_state::hold(std::byte* from, std::size_t length) {
  region_state& in = region_of(from, length);
  if (length == 0) return;
  if (last_region_ != &in) enter(in);
  const std::uint64_t offset = in.offset + static_cast<std::uint64_t>(from - in.base);
  const std::uint64_t first = offset / redo_page, last = (offset + length - 1) / redo_page;
  for (std::uint64_t page = first; page <= last; ++page) touched_.add({in.in, page}, owner_.list_lock());
  os::light_fence();
  for (std::uint64_t page = first; page <= last; ++page) in.in->pages().wait_until_released(page);
}

// The answer is the same for all of a transaction. A hold that is taken later reads the pages from the segment.
bool transaction_state::is_bulk_logged() {
  if (!bulk_logged_) bulk_logged_ = owner_.parts().archived || owner_.parts().log.is_held();
  return *bulk_logged_;
}

void transaction_state::write_bulk(region_state& in, std::size_t offset, std::span<const os::const_bytes> from) {
  if (preparing_)
    throw error(errc::bad_transaction, name() +
                                           ": a participant cannot write in bulk while the transaction is being "
                                           "committed; do it before commit()");
  std::uint64_t length = 0;
  for (const auto& piece : from) length += piece.size();
  if (offset % redo_page != 0 || in.offset % redo_page != 0 || length % redo_page != 0)
    throw error(errc::misaligned, name() + ": offset " + std::to_string(offset) + " and length " +
                                      std::to_string(length) + " of what is written in bulk must be multiples of " +
                                      std::to_string(redo_page));
  const std::size_t size = in.length;
  if (offset > size || length > size - offset)
    throw error(errc::partly_mapped,
                name() + ": bytes " + std::to_string(offset) + " to " + std::to_string(offset + length) +
                    ", to be written in bulk, do not lie in the region, which has " + std::to_string(size));
  if (length == 0) return;
  // In the log they are ordinary changes: their pages become dirty.
  if (is_bulk_logged())
    hold(in.base + offset, static_cast<std::size_t>(length));
  else if (last_region_ != &in)
    enter(in);
  const std::unique_lock<std::mutex> lock = lock_for_checking();
  bulk_.push_back({&in, offset, static_cast<std::size_t>(length), {from.begin(), from.end()}});
}

void transaction_state::write_bulk_to_segments() {
  const auto& parts = owner_.parts();
  if (is_bulk_logged()) return;
  parts.writer.wait(parts.writer.last_commit());
  // In the order of writing: if a page is written twice, the later bytes win.
  std::map<segment*, std::vector<segment::bulk_write>> writes;
  std::vector<bulk_run> masked;
  for (const bulk_write& b : bulk_) {
    const std::uint64_t page = (b.in->offset + b.offset) / redo_page;
    writes[b.in->in].push_back({page, b.from, {}});
    masked.push_back({b.in->in, page, std::vector<std::uint32_t>(b.length / redo_page)});
  }
  bulk_runs_.clear();
  const log_stamp& stamp = parts.log.stamp();
  parts.truncation.with_lock_for_bulk([&] {
    parts.queue.mask(id(), stamp.generation, masked);
    for (auto& [in, all] : writes) {
      const lsn tail = in->was_changed_under(stamp.log_id) ? parts.log.window().tail : 0;
      in->write_bulk(all, id(), stamp.generation, tail);
      for (auto& w : all) {
        ++parts.count.bulk_runs;
        parts.count.bulk_bytes += w.checksums.size() * redo_page;
        bulk_runs_.push_back({in, w.page, std::move(w.checksums)});
      }
    }
  });
}

}  // namespace tenure::rvm
