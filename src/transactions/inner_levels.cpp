// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Inner transactions: each level remembers how long the lists were when it began. Declarations of a level save old values again,
// also where an outer level has saved older ones [rvm.inner.old-values].
#include <tenure/rvm/participant.hpp>

#include "os/room_for_one.hpp"
#include "transactions/checking.hpp"
#include "transactions/transaction_table.hpp"

namespace tenure::rvm {

std::shared_ptr<inner_level> transaction_state::begin_inner() {
  if (mode_ == restore_mode::no_restore)
    throw error(errc::cannot_abort,
                name() +
                    " was begun no_restore: old values are not kept, and an inner transaction could "
                    "not be undone; begin it with restore_mode::restore");
  require_not_doomed();
  if (is_prepared_)
    throw error(errc::bad_transaction, name() + ": is prepared, and cannot change anything more; commit or abort it");
  auto level = std::make_shared<inner_level>(inner_level{this});
  os::reserve_one_more(levels_);
  begin_tracked_level();
  levels_.push_back({level, level_begin_, merged_, undo_.size(), saved_.size(), bulk_.size(), paged_.ranges()});
  level_begin_ = merged_ = ranges_.size();
  return level;
}

void transaction_state::commit_inner(const inner_level& level) {
  require_innermost(level, "commit");
  commit_scope scope(*this);
  for (participant* const p : participants_) p->inner_committed(scope, levels_.size());
  end_level();
}

void transaction_state::abort_inner(const inner_level& level) {
  require_innermost(level, "abort");
  restore_tracked_level();
  const outer& before = levels_.back();
  put_back_old_values(before.undo);
  os::shorten(undo_, before.undo);
  os::shorten(saved_, before.saved);
  paged_.shorten(before.paged);
  {
    const std::unique_lock<std::mutex> lock = lock_for_checking();
    os::shorten(ranges_, level_begin_);
    if (owner_.parts().checking.shadows) accept_bulk(bulk().subspan(before.bulk));
    bulk_.erase(bulk_.begin() + static_cast<std::ptrdiff_t>(before.bulk), bulk_.end());
  }
  commit_scope scope(*this);
  for (participant* const p : participants_) p->inner_aborted(scope, levels_.size());
  end_level();
}

void transaction_state::drop_inner(const inner_level& level) noexcept {
  try {
    // Those in it have outlived it.
    while (levels_.back().inner.get() != &level) abort_inner(*levels_.back().inner);
    abort_inner(level);
  } catch (...) {
    is_doomed_ = true;
    end_levels();
  }
}

void transaction_state::require_innermost(const inner_level& level, const char* to) const {
  if (levels_.back().inner.get() != &level)
    throw error(errc::bad_transaction, name() + ": an inner transaction that has an open one in it cannot " + to +
                                           "; end the innermost one first");
}

void transaction_state::require_no_inner() const {
  if (!levels_.empty())
    throw error(errc::bad_transaction, name() + ": " + std::to_string(levels_.size()) +
                                           " inner transactions are open; commit or abort them first");
  require_not_doomed();
}

void transaction_state::require_not_doomed() const {
  if (is_doomed_)
    throw error(errc::bad_transaction,
                name() + ": an inner transaction could not be undone for want of memory; abort this one");
}

// What the innermost one has changed is its outer one's.
void transaction_state::end_level() noexcept {
  const outer& before = levels_.back();
  before.inner->of = nullptr;
  level_begin_ = before.level_begin;
  merged_ = before.merged;
  levels_.pop_back();
  end_tracked_level();
}

void transaction_state::end_levels() noexcept {
  for (const outer& each : levels_) each.inner->of = nullptr;
  levels_.clear();
}

}  // namespace tenure::rvm
