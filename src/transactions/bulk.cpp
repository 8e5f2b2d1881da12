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
#include <utility>

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

void transaction_state::require_bulk(const region_state& in, std::size_t offset, std::uint64_t length) const {
  require_may_change();
  if (preparing_)
    throw error(errc::bad_transaction, name() +
                                           ": a participant cannot write in bulk while the transaction is being "
                                           "committed; do it before commit()");
  if (offset % redo_page != 0 || in.offset % redo_page != 0 || length % redo_page != 0)
    throw error(errc::misaligned, name() + ": offset " + std::to_string(offset) + " and length " +
                                      std::to_string(length) + " of what is written in bulk must be multiples of " +
                                      std::to_string(redo_page));
  const std::size_t size = in.length;
  if (offset > size || length > size - offset)
    throw error(errc::partly_mapped,
                name() + ": bytes " + std::to_string(offset) + " to " + std::to_string(offset + length) +
                    ", to be written in bulk, do not lie in the region, which has " + std::to_string(size));
}

void transaction_state::write_bulk(region_state& in, std::size_t offset, std::span<const os::const_bytes> from) {
  std::uint64_t length = 0;
  for (const auto& piece : from) length += piece.size();
  require_bulk(in, offset, length);
  if (length == 0) return;
  // In the log they are ordinary changes: their pages become dirty.
  if (is_bulk_logged())
    hold(in.base + offset, static_cast<std::size_t>(length));
  else if (last_region_ != &in)
    enter(in);
  const std::unique_lock<std::mutex> lock = lock_for_checking();
  bulk_.push_back({&in, offset, static_cast<std::size_t>(length), {from.begin(), from.end()}});
}

// Even with an archive the log gets no zeros: nobody needs the pages' contents, then or before [rvm.bulk.cleared].
void transaction_state::clear(region_state& in, std::size_t offset, std::size_t length) {
  require_bulk(in, offset, length);
  if (length == 0) return;
  if (last_region_ != &in) enter(in);
  const std::unique_lock<std::mutex> lock = lock_for_checking();
  bulk_.push_back({&in, offset, length, {}});
}

// What is written in bulk, as values of the log. Declared ranges win, and of two bulk writes the later one. The log gets
// each byte once [rvm.log.disjoint].
void transaction_state::add_bulk_values() {
  std::map<const segment*, interval_set> known;
  for (const new_value& v : values_) known[v.in].add(v.offset, v.offset + v.length);
  for (auto last = bulk_.rbegin(); last != bulk_.rend(); ++last) {
    const bulk_write& b = *last;
    interval_set& of = known[b.in->in];
    const std::uint64_t begin = b.in->offset + b.offset;
    std::uint64_t at = begin;
    for (const os::const_bytes piece : b.from)
      for (const std::uint64_t first = at, end = at + piece.size(); at < end;) {
        const std::uint64_t next = of.end_of_run(at, end);
        if (!of.contains(at)) values_.push_back({b.in->in, at, piece.data() + (at - first), next - at});
        at = next;
      }
    if (at != begin) of.add(begin, at);
  }
  std::ranges::sort(values_, {}, [](const new_value& v) { return std::pair(v.in, v.offset); });
}

void transaction_state::write_bulk_to_segments() {
  const auto& parts = owner_.parts();
  const bool is_logged = is_bulk_logged();
  if (is_logged && std::ranges::none_of(bulk_, [](const bulk_write& b) { return b.from.empty(); })) return;
  parts.writer.wait(parts.writer.last_commit());
  // In the order of writing: if a page is written twice, the later bytes win.
  std::map<segment*, std::vector<segment::bulk_write>> writes;
  std::vector<bulk_run> masked;
  for (const bulk_write& b : bulk_) {
    if (is_logged && !b.from.empty()) continue;
    const std::uint64_t page = (b.in->offset + b.offset) / redo_page, pages = b.length / redo_page;
    writes[b.in->in].push_back({page, pages, b.from, {}});
    masked.push_back({b.in->in, page, pages, {}});
  }
  bulk_runs_.clear();
  const log_stamp& stamp = parts.log.stamp();
  parts.truncation.with_lock_for_bulk([&] {
    parts.queue.mask(id(), stamp.generation, masked);
    for (auto& [in, all] : writes) {
      const lsn tail = in->was_changed_under(stamp.log_id) ? parts.log.window().tail : 0;
      in->write_bulk(all, id(), stamp.generation, tail);
      for (auto& w : all) {
        (w.is_clearing() ? parts.count.cleared_bytes : parts.count.bulk_bytes) += w.pages * redo_page;
        if (!w.is_clearing()) ++parts.count.bulk_runs;
        bulk_runs_.push_back({in, w.page, w.pages, std::move(w.checksums)});
      }
    }
  });
}

}  // namespace tenure::rvm
