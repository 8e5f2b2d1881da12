// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "transactions/automatic_transaction.hpp"

#include <cstring>

#include "regions/announced_stores.hpp"
#include "regions/tracked_regions.hpp"
#include "replay/truncator.hpp"
#include "transactions/transaction_table.hpp"

namespace tenure::rvm {

void automatic_transaction::require_pages_may_change() const {
  throw error(errc::wrong_tracking, name() +
                                        " finds its changes by itself; change pages of segments that are not mapped in "
                                        "a transaction begun with begin()");
}

void automatic_transaction::set_tracked_range(region_state& in, std::byte* from, std::size_t length) {
  if (captured_)
    throw error(errc::wrong_tracking,
                name() + ": the region of " + in.segment_path +
                    " is tracked automatically; change it in a transaction begun with begin_automatic()");
  if (!is_preparing() && !collected_) return in.tracker->announce(from, length);
  in.tracker->log_without_comparison(from, length);
  refer_to_pages(in, from, length);
  declare({from, length, &in});
}

bool automatic_transaction::uses(const region_state& in) const {
  return in.tracker != nullptr || transaction_state::uses(in);
}

void automatic_transaction::collect() {
  forget();
  try {
    owner().parts().tracked.collect(changes_, [this](region_state& r, std::span<const memory_range> found) {
      for (const memory_range& change : found) {
        refer_to_pages(r, change.address, change.length);
        declare({change.address, change.length, &r});
      }
    });
  } catch (...) {
    forget();
    throw;
  }
}

void automatic_transaction::forget() noexcept {
  collected_ = false;
  os::clear_all_of(changes_);
  forget_tracked_ranges();
}

std::span<const memory_range> automatic_transaction::collect_changes() {
  if (captured_) throw error(errc::wrong_tracking, name() + ": its changes are captured already");
  if (!collected_) collect();
  collected_ = true;
  return changes_;
}

void automatic_transaction::for_each_written_page(const callback<void(const memory_range&)>& f) const {
  owner().parts().tracked.for_each_collected_page(f);
}

void automatic_transaction::read_committed(const std::byte* from, std::size_t length, std::byte* into) const {
  const region_state* const in = owner().parts().regions.find(from);
  if (!collected_ || in == nullptr || in->tracker == nullptr || !in->contains(from + length - 1))
    return transaction_state::read_committed(from, length, into);
  in->tracker->read_committed(from, length, into);
}

void automatic_transaction::discard_changes() noexcept {
  forget();
  forget_bulk();
}

void automatic_transaction::find_what_to_log() {
  if (captured_)
    throw error(errc::outcome_unknown, name() +
                                           " was committed, and then the log could not be written; "
                                           "close this memory and open it again to find out what survived");
  if (!collected_) collect();
}

ticket automatic_transaction::log(commit_mode mode) {
  const auto& parts = owner().parts();
  find_what_to_log();
  for (const bulk_write& b : bulk()) {
    region_tracker* const tracker = b.in->tracker.get();
    if (tracker == nullptr) continue;
    // With an archive, or a hold, the bytes go through the log. The file may have the same bytes already, while older records of
    // the page have not reached it yet. So the file does not show what is committed [rvm.tracking.image].
    if (is_bulk_logged() && !b.from.empty())
      tracker->log_other_values(b.in->base + b.offset, b.length);
    else if (is_bulk_logged())
      tracker->log_without_comparison(b.in->base + b.offset, b.length);
    else
      tracker->written_in_bulk(b.in->base + b.offset, b.length);
  }
  return parts.writer.capture(*this, mode);
}

void automatic_transaction::logging_failed() noexcept {
  if (!captured_) forget();
}

void automatic_transaction::logged(ticket at, commit_mode mode) {
  const auto& parts = owner().parts();
  const bool many_before_images = parts.tracked.committed(changes_);
  captured_ = true;
  try {
    if (mode == commit_mode::flush) parts.writer.wait(at);
  } catch (const error& e) {
    parts.tracked.fail();
    if (e.code() == errc::outcome_unknown) throw;
    // From here on other transactions can be aborted. The changes of this one stay in memory.
    throw error(errc::outcome_unknown,
                std::string("the log could not be written; memory has the changes that the log lacks, so close this "
                            "memory and open it again: ") +
                    e.what());
  } catch (...) {
    parts.tracked.fail();
    throw;
  }
  if (many_before_images) parts.truncation.request_truncation();
}

void automatic_transaction::restore() noexcept {
  if (captured_) return;
  put_back_old_values();
  captured_ = true;
  const auto& parts = owner().parts();
  // Done before the next automatic transaction may begin.
  if (!parts.tracked.put_back()) parts.writer.fail(parts.not_restored);
  parts.tracked.aborted();
}

// --- Inner transactions ---

os::cleared_vector<memory_range> automatic_transaction::find_changes() const {
  if (captured_ || collected_)
    throw error(errc::bad_transaction,
                name() + ": its changes have been collected for its commit; inner transactions begin and end before");
  os::cleared_vector<memory_range> found;
  owner().parts().tracked.find_restorable(found);
  return found;
}

void automatic_transaction::begin_tracked_level() {
  changed_bytes level{find_changes(), {}};
  std::size_t length = 0;
  for (const memory_range& each : level.ranges) length += each.length;
  std::byte* to = level.bytes.renew(length);
  for (const memory_range& each : level.ranges) {
    std::memcpy(to, each.address, each.length);
    to += each.length;
  }
  levels_.push_back(std::move(level));
}

// Nothing is lost on the way: what cannot be found for want of memory is not touched.
void automatic_transaction::restore_tracked_level() {
  const os::cleared_vector<memory_range> now = find_changes();
  const own_stores unannounced;
  for (const memory_range& each : now)
    owner().parts().regions.find(each.address)->tracker->read_committed(each.address, each.length, each.address);
  const changed_bytes& level = levels_.back();
  const std::byte* from = level.bytes.data();
  for (const memory_range& each : level.ranges) {
    std::memcpy(each.address, from, each.length);
    from += each.length;
  }
}

void automatic_transaction::reset_kind() noexcept {
  levels_.clear();
  captured_ = collected_ = false;
  os::clear_all_of(changes_);
}

}  // namespace tenure::rvm
