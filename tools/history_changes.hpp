// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the commands that look at one segment's history have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "history.hpp"
#include "history_command.hpp"

namespace tenure::tools {

// The log whose history is asked for: one that has the segment's changes.
[[nodiscard]] std::string log_of(os::disk& disk, const history_place& where, const named_segment& segment);

// Tells transactions up to a moment from those behind it: a prefix, wherever clocks were set back.
class prefix {
 public:
  explicit prefix(const moment& until) : until_(until) {}
  // Of each record, whichever segment it changes: a transaction is taken or not as a whole, by its first one. That may be in a
  // part of the archive that has nothing wanted, and was not read.
  void see(const rvm::transaction_view& tx, rvm::lsn at, const rvm::group_header& in) {
    const bool begins_batch = batch_ != in.batch && in.batch == in.lsn;
    batch_ = in.batch;
    if ((tx.flags & rvm::record_first) == 0 && tx.id == seen_) return;
    seen_ = tx.id;
    if (!over_ && !until_.includes(at, tx.time)) {
      over_ = true;
      divides_ = !begins_batch && (in.flags & rvm::group_of_all) == 0;
    }
    any_ = any_ || !over_;
  }
  [[nodiscard]] bool takes() const { return !over_; }
  // Whether the moment lies in a batch that lacks commits: what was before is mixed then with bytes of later ones that are in no
  // history, or lacks some [rvm.log.batch].
  [[nodiscard]] bool divides_batch() const { return divides_; }
  // Whether the moment may lie before all that the history knows. `of` was walked.
  [[nodiscard]] bool may_be_before(const history& of) const {
    return !of.is_complete() && (until_.at ? *until_.at < of.begin() : !any_);
  }

 private:
  const moment& until_;
  std::uint64_t seen_ = 0;
  rvm::lsn batch_ = 0;  // of the last record
  bool over_ = false, any_ = false, divides_ = false;
};
inline constexpr auto see_nothing = [](const rvm::transaction_view&, rvm::lsn, const rvm::group_header&) {};

// Calls see(transaction, LSN, group) for each record that is read; f(transaction, LSN, offset, bytes) for each change of bytes of
// [from, to), cut to them; and g(transaction, LSN, offset, length) for pages that were written straight to the segment: what they
// became the history does not know.
template <class S, class F, class G>
void for_each_change(history& of, const wanted_changes& which, S&& see, F&& f, G&& g) {
  of.walk(which, [&](const rvm::group_view& group, os::const_bytes bytes) {
    std::vector<bool> wanted;
    for (const rvm::segment_name& name : group.segments()) wanted.push_back(which.segment->is(name, of.log_path()));
    for_each_record(group, bytes, [&](const rvm::transaction_view& tx, rvm::lsn at) {
      see(tx, at, group.header());
      for (const rvm::bulk_run_view& run : tx.runs)
        if (wanted[run.segment] && run.offset < which.to && which.from < run.offset + run.length())
          g(tx, at, run.offset, run.length());
      for (const rvm::range_view& range : tx.ranges) {
        const std::uint64_t begin = std::max(range.offset, which.from),
                            end = std::min(range.offset + range.value.size(), which.to);
        if (wanted[range.segment] && begin < end)
          f(tx, at, begin, range.value.subspan(begin - range.offset, end - begin));
      }
    });
    return true;
  });
}

}  // namespace tenure::tools
