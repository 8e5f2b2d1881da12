// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions in a transaction. What the outermost one has changed so far is kept when an inner one begins: recoverable memory
// keeps the bytes of persistent objects, and saved_objects.hpp those of others. Nothing becomes persistent before the outermost
// one commits, so commits, recovery and collections know nothing of inner ones [heap.inner.outermost].
#include <tenure/error.hpp>

#include "os/room_for_one.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

namespace {

error is_doomed(const std::string& directory) {
  return {errc::doomed, directory +
                            ": an inner transaction could not be undone, because there was no memory for it, so this "
                            "one cannot commit; abort it"};
}

}  // namespace

std::shared_ptr<const bool> store_state::begin_inner() {
  require_writable();
  if (doomed) throw is_doomed(directory);
  os::reserve_one_more(levels);
  inner_level made;
  made.is_open = std::make_shared<bool>(true);
  made.label = label;
  made.weak_made = weak.made();
  for (const auto& d : *databases) made.retired.push_back(d->retired_so_far());
  made.memory = tx.begin_inner();
  std::size_t begun = 0;
  try {
    std::swap(made.objects, spare);
    made.objects.save(*this);
    for (const auto& d : *databases) {
      d->birth->begin_level();
      ++begun;
    }
  } catch (...) {
    for (std::size_t n = 0; n < begun; ++n) (*databases)[n].birth->commit_level();
    made.memory.commit();
    throw;
  }
  for (const auto& d : *databases) d->note_retired(true);
  levels.push_back(std::move(made));
  return levels.back().is_open;
}

void store_state::commit_inner(const bool& which) {
  require_transaction("commit");
  if (levels.back().is_open.get() != &which)
    throw error(errc::bad_transaction,
                directory + ": an inner transaction that has an open one in it cannot commit; end that one first");
  levels.back().memory.commit();
  for (const auto& d : *databases) d->birth->commit_level();
  innermost_ended();
  check_in_debug_builds();
}

void store_state::abort_inner(const bool& which) {
  require_transaction("abort");
  while (levels.back().is_open.get() != &which) abort_innermost();
  abort_innermost();
  check_in_debug_builds();
}

void store_state::abort_innermost() {
  inner_level& ended = levels.back();
  ended.memory.abort();
  ended.objects.put_back(*this);
  for (std::size_t n = 0; n < databases->size(); ++n) {
    database_state& d = (*databases)[n];
    d.unretire(ended.retired[n]);
    d.birth->abort_level();
    d.names->inner_aborted();
  }
  weak.aborted(ended.weak_made);
  label = std::move(ended.label);
  innermost_ended();
}

void store_state::innermost_ended() noexcept {
  inner_level& ended = levels.back();
  *ended.is_open = false;
  if (ended.objects.capacity() > spare.capacity()) std::swap(ended.objects, spare);
  levels.pop_back();
  if (levels.empty())
    for (const auto& d : *databases) d->note_retired(false);
}

void store_state::drop_inner(const bool& which) noexcept {
  try {
    require_transaction("abort");
  } catch (...) {  // it belongs to another thread, or process
    return;
  }
  try {
    abort_inner(which);
  } catch (...) {
    doomed = true;
    end_levels();
  }
}

void store_state::end_levels() noexcept {
  for (; !levels.empty(); levels.pop_back()) {
    for (const auto& d : *databases) d->birth->commit_level();
    *levels.back().is_open = false;
  }
  for (const auto& d : *databases) d->note_retired(false);
}

void store_state::require_no_inner(const char* what) const {
  if (!levels.empty())
    throw error(errc::bad_transaction, directory + ": cannot " + what + ": " + std::to_string(levels.size()) +
                                           (levels.size() == 1 ? " inner transaction is open in it; end it first"
                                                               : " inner transactions are open in it; end them first"));
  if (doomed) throw is_doomed(directory);
}

}  // namespace tenure
