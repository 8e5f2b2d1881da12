// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/restore_plan.hpp"

#include <algorithm>

#include <tenure/error.hpp>

#include "os/process.hpp"

namespace tenure::rvm {

restore_plan::restore_plan(std::string backup, const backup_note& from, std::uint32_t block, const restore_point& until,
                           bool has_all)
    : backup_(std::move(backup)),
      block_(block),
      until_(until),
      has_all_(has_all),
      from_(from.to),
      not_before_(from.time != 0 ? from.time : from.made),
      base_{0, from.to, 0, from.transaction, from.time, from.label},
      last_(base_),
      reached_(base_) {
  if (int{until.position.has_value()} + int{until.transaction.has_value()} + int{until.time.has_value()} > 1)
    throw error(errc::bad_option, "a position, a transaction and a time are given as the point to restore: give one");
  if (until.transaction && from.transaction != 0 && *until.transaction == from.transaction) note_named(base_, true);
  if (until.position && *until.position < from_)
    throw error(errc::bad_option, backup_ + ": the backup is of later than LSN " + std::to_string(*until.position) +
                                      ": it has everything up to LSN " + std::to_string(from_) +
                                      ", which would be the backup itself; use an earlier backup");
}

bool restore_plan::is_wanted(const transaction_view& tx, lsn record) const {
  if (until_.position) return record <= *until_.position;
  return !until_.time || tx.time <= *until_.time;
}

bool restore_plan::add(const group_view& group) {
  const group_header& header = group.header();
  const auto& transactions = group.transactions();
  // The batch ends with groups of what is prepared: its last transaction is in one before.
  if ((header.flags & group_last) != 0 && transactions.empty() && reached_.group >= header.batch) {
    if (named_ && named_->tail == reached_.tail && named_->records == reached_.records) named_is_state_ = true;
    last_ = reached_;
    left_out_ = 0;
  }
  for (std::size_t n = 0; n < transactions.size(); ++n) {
    const transaction_view& tx = transactions[n];
    note_changes(group, n);
    if ((tx.flags & record_first) != 0) begins_ = header.lsn + tx.at;
    if ((tx.flags & record_last) == 0) continue;
    if (!is_wanted(tx, begins_)) {
      is_passed_ = true;
      return false;
    }
    reached_ = {header.lsn, header.lsn + round_up(header.length, block_), n + 1, tx.id, tx.time, std::string(tx.label)};
    // In a batch that lacks commits, those that are left lead to no state that there was before its end.
    const bool is_state =
        (header.flags & group_of_all) != 0 || ((header.flags & group_last) != 0 && n + 1 == transactions.size());
    if (until_.transaction && tx.id == *until_.transaction) note_named(reached_, is_state);
    ++left_out_;
    if (is_state) {
      last_ = reached_;
      left_out_ = 0;
    }
  }
  return true;
}

void restore_plan::note_changes(const group_view& group, std::size_t record) {
  const transaction_view& tx = group.transactions()[record];
  const record_place here{group.header().lsn, record};
  const auto written = std::ranges::find_if_not(tx.runs, &bulk_run_view::is_cleared);
  if (written != tx.runs.end() && !bulk_)
    bulk_.emplace(here, "transaction " + std::to_string(tx.id) + ", at LSN " + std::to_string(here.group + tx.at) +
                            ", has written pages of " + group.segments()[written->segment].path);
  for (const range_view& range : tx.ranges) {
    const segment_name& name = group.segments()[range.segment];
    const auto known = std::find_if(changed_.begin(), changed_.end(), [&](const auto& c) {
      return c.first.raw == name.raw && c.first.id == name.id && c.first.path == name.path;
    });
    if (known == changed_.end()) changed_.emplace_back(name, here);
  }
}

void restore_plan::note_named(const commit& now, bool is_state) {
  if (named_) {
    named_again_ = now.tail;
    return;
  }
  named_ = now;
  named_is_state_ = is_state;
}

void restore_plan::finish(lsn end) {
  if (until_.transaction) find_named();
  require_reached(end);
  if (bulk_ && !is_beyond(bulk_->first))
    throw error(errc::no_history, bulk_->second +
                                      " in bulk, past the log: the bytes are only in the segments; restore "
                                      "what was before LSN " +
                                      std::to_string(bulk_->first.group) +
                                      ", or use a backup that was made later; with an archive bulk writes go through "
                                      "the log");
  for (const auto& [name, first] : changed_)
    if (!is_beyond(first)) segments_.emplace_back(name, first.group);
}

void restore_plan::find_named() {
  const std::string named = "transaction " + std::to_string(*until_.transaction);
  if (!named_) return;
  if (named_again_ != 0)
    throw error(errc::bad_option, named + " is there several times, before LSN " + std::to_string(named_->tail) +
                                      " and before LSN " + std::to_string(named_again_) +
                                      ": numbers begin again with every opening; give a position or a time instead");
  if (!named_is_state_)
    throw error(errc::bad_option, named + ", at LSN " + std::to_string(named_->group) +
                                      ", was made durable together with others, of which some left nothing in the log "
                                      "because later ones overwrote it all: what was after it is not known; restore "
                                      "what was before, or after all of them");
  last_ = *named_;
}

void restore_plan::require_reached(lsn end) const {
  if (until_.position && *until_.position > end)
    throw error(errc::no_history,
                "LSN " + std::to_string(*until_.position) + " is not reached: " + what_is_reached(end));
  if (until_.transaction && !named_)
    throw error(errc::no_history, "transaction " + std::to_string(*until_.transaction) +
                                      " is not among those from LSN " + std::to_string(from_) +
                                      " on: " + what_is_reached(end));
  if (!until_.time) return;
  if (is_at_backup() && *until_.time < not_before_)
    throw error(errc::bad_option,
                backup_ + ": the backup is of later than the time that is given: its last transaction " +
                    (last_.time != 0 ? "is of " + os::utc_text(last_.time)
                                     : "is not known, and it was made at " + os::utc_text(not_before_)) +
                    "; use an earlier backup");
  // Others of the same time may follow: the clock has steps of milliseconds.
  if (!is_passed_ && !has_all_)
    throw error(errc::no_history, "the time that is given is not passed: " + what_is_reached(end) +
                                      "; give the log, if it is there, or no time to get everything");
}

std::string restore_plan::what_is_reached(lsn end) const {
  std::string text = "what is there ends at LSN " + std::to_string(end);
  if (reached_.transaction == 0) return text;
  return text + ", after transaction " + std::to_string(reached_.transaction) + " of " + os::utc_text(reached_.time) +
         (reached_.label.empty() ? "" : " (\"" + reached_.label + "\")");
}

void restore_plan::cut(group_view& group) const {
  if (group.header().lsn == last_.group) group.keep_first(last_.records);
}

}  // namespace tenure::rvm
