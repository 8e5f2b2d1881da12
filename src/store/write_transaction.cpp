// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Write transactions [PM3 §6.1]: from begin() to the commit, in order:
//   1. the access lock is taken, recoverable memory begins a transaction that finds its changes by itself;
//   2. the program changes objects and makes new ones (birth.hpp);
//   3. commit: the changes are collected; the stabilizer follows the references in them and declares what is to be logged;
//   4. recoverable memory captures the values; the access lock is released; the log is waited for.
#include <cassert>
#include <cstring>
#include <new>
#include <optional>

#include <tenure/error.hpp>

#include "objects/stabilizer.hpp"
#include "store/copying_stabilizer.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

void store_state::begin() {
  require_writable();
  if (is_writer())
    throw error(errc::bad_transaction,
                directory + ": this thread has an open transaction, which a callback may have left; end it first");
  access.lock_exclusive();
  use();
  reopen();
  transaction_begun(*this);
}

void store_state::reopen() {
  std::size_t begun = 0;
  try {
    require_writable();
    assert(is_writer() && !tx.is_open() && hidden.empty());
    const collector::stray_write_watch watched(collection);
    tx = memory->begin_automatic();
    tx.join(*this);
    for (; begun < databases->size(); ++begun)
      if (const auto& birth = (*databases)[begun].birth) birth->begin();
  } catch (...) {
    tx = {};  // if it could not be joined: others wait for its end
    while (begun-- != 0)
      if (const auto& birth = (*databases)[begun].birth) birth->abort();
    transaction_ended(*this);
    access.unlock_exclusive();
    throw;
  }
  const std::scoped_lock lock(statistics_mutex);
  ++counts.write_transactions;
}

ticket store_state::commit() {
  require_transaction("commit");
  return finish(access_after::released);
}

#ifdef TENURE_SMALL_GEOMETRY
constexpr std::size_t few_changes = 2;
#else
constexpr std::size_t few_changes = 64;
#endif

// What a commit has on its way to the log.
struct store_state::ending {
  explicit ending(store_state& from) : of(from), work(*from.databases, from.tx, from.hidden) {}
  // Declares what is to be logged.
  void begin();
  // Then everything is as before begin().
  void take_back() noexcept;
  // If nobody collects, there is none.
  void take_gate();

  store_state& of;
  stabilizer work;
  std::optional<copying_stabilizer> copying;
  collector::gate_lock gate;
};

void store_state::ending::begin() {
  of.weak.clear_destroyed();
  std::span<const rvm::memory_range> changes = of.tx.collect_changes();
  if (of.how.stabilize == stabilization::copying && !of.stays_in_place && copying.emplace(of).find(of.tx)) {
    of.tx.discard_changes();
    if (!copying->copy()) copying.reset();
    changes = of.tx.collect_changes();
  }
  gate = of.collection.pass_gate();
  if (gate) of.collection.note_overwritten(of.tx, changes);
  // Where little has changed, the next slice of marking takes longer than what could go on beside it.
  if (changes.size() > few_changes) of.collection.let_mark(gate);
  work.trace(changes);
  take_gate();
  work.describe();
  if (gate) of.collection.note_destroyed();
  if (copying) copying->traced();
  if (gate) of.collection.note_cells(work.cells());
  of.weak.clear_left_behind(work.cells());
  work.write();
  if (gate) of.collection.note_written(of.tx, changes);
  if (!of.label.empty()) of.tx.label(of.label);
  // If the commit fails, what it takes away is there again, and the marker must not have missed it.
  if (!work.takes_away()) of.collection.let_mark(gate);
}

void store_state::ending::take_gate() {
  if (!gate) gate = of.collection.pass_gate();
}

void store_state::ending::take_back() noexcept {
  take_gate();
  of.hidden.put_back();
  of.tx.discard_changes();
  work.undo();
  if (copying) copying->failed();
  of.weak.commit_failed();
}

ticket store_state::finish(access_after then) {
  assert(is_writer());
  require_no_inner("commit");
  ending end(*this);
  ticket done;
  try {
    end.begin();
    done = tx.commit(rvm::commit_mode::no_flush);
  } catch (...) {
    end.take_back();
    throw;
  }
  end.take_gate();
  {
    const std::scoped_lock lock(statistics_mutex);
    end.work.committed(counts);
    ++counts.commits;
  }
  if (end.copying) end.copying->committed();
  weak.committed(end.work.cells());
  if (end.gate) end.gate.unlock();
  collection.made(end.work.bytes());
  ended();
  // Who goes on may yet use what it has made.
  if (then == access_after::released) collect_young();
  check_in_debug_builds();
  if (then == access_after::released) {
    transaction_ended(*this);
    access.unlock_exclusive();
  }
  return done;
}

// [heap.prepared] What was found is forgotten again. The commit finds it a second time, as after a commit that failed.
void store_state::prepare_commit(std::string_view global_id) {
  require_changeable("be prepared");
  require_no_inner("be prepared");
  ending end(*this);
  try {
    end.begin();
    tx.prepare(global_id);
  } catch (...) {
    end.take_back();
    throw;
  }
  end.take_back();
  prepared = true;
}

void store_state::abort(doubt after) {
  require_transaction("abort");
  collection.note_abort(tx);
  if (after == doubt::stays)
    tx.leave_in_doubt();
  else
    tx.abort();
  end_levels();
  for (const auto& d : *databases) {
    if (d->birth) d->birth->abort();
    d->names->aborted();
  }
  weak.aborted();
  {
    const std::scoped_lock lock(statistics_mutex);
    ++counts.aborts;
  }
  ended();
  check_in_debug_builds();
  transaction_ended(*this);
  access.unlock_exclusive();
}

// A mistake in the library is found where it is made. Without memory for it, nothing is looked at: the transaction has ended.
void store_state::check_in_debug_builds() const {
#ifndef NDEBUG
  try {
    check_heap();
  } catch (const std::bad_alloc&) {
  }
#endif
}

void store_state::ended() noexcept {
  label.clear();
  spare = {};
  doomed = stays_in_place = prepared = false;
  weak.ended();
  for (const auto& d : *databases) {
    d->names->committed();
    d->destroyed.clear();
    d->retired.clear();
    d->trimming.clear();
  }
}

void store_state::end_abandoned() {
  if (abandoned && is_writer() && abandoned.exchange(false)) abort();
}

void store_state::require_transaction(const char* what) const {
  require_usable();
  if (!is_writer())
    throw error(errc::bad_transaction, directory + ": cannot " + what +
                                           ": this thread has no open write transaction; begin one with store.begin()");
}

void store_state::require_changeable(const char* what) const {
  require_transaction(what);
  if (prepared)
    throw error(errc::bad_transaction,
                directory + ": cannot " + what + ": the transaction is prepared; it can only commit and abort");
}

// --- The public class ---------------------------------------------------------------------------------------------------

transaction::~transaction() {
  if (!is_open() || state_->closed) return;
  if (level_ != nullptr) {
    state_->drop_inner(*level_);
    return;
  }
  if (!state_->is_writer()) {
    state_->abandoned = true;
    return;
  }
  try {
    state_->abort();
  } catch (...) {
    // After a failure of the storage nothing can be put back. The next use of the store reports the reason.
  }
}

transaction& transaction::operator=(transaction&& other) noexcept {
  if (this != &other) {
    const transaction ended(std::move(*this));
    state_ = std::exchange(other.state_, nullptr);
    level_ = std::move(other.level_);
  }
  return *this;
}

store_state& transaction::require_open() const {
  if (!is_open())
    throw error(
        errc::bad_transaction,
        "the transaction has ended, perhaps with an outer one, or was never begun; begin one with store.begin()");
  return *state_;
}

// An inner one has nothing that it could do so with.
store_state& transaction::require_outermost(const char* what) const {
  store_state& s = require_open();
  s.require_transaction(what);
  if (level_ != nullptr)
    throw error(errc::bad_transaction, s.directory + ": an inner transaction cannot " + what +
                                           ": nothing is committed before the outermost one; call it there");
  return s;
}

ticket transaction::commit(commit_mode mode) {
  store_state& s = require_open();
  if (level_ != nullptr) {
    s.commit_inner(*level_);
    forget();
    return {};
  }
  const ticket done = s.commit();
  forget();  // the transaction has ended, even if waiting for the log fails
  if (mode == commit_mode::durable) s.memory->wait(done);
  return done;
}

void transaction::abort() {
  store_state& s = require_open();
  if (level_ != nullptr)
    s.abort_inner(*level_);
  else
    s.abort();
  forget();
}

void transaction::prepare(std::string_view global_id) { require_outermost("be prepared").prepare_commit(global_id); }

void transaction::leave_in_doubt() {
  store_state& s = require_outermost("be left in doubt");
  if (!s.prepared)
    throw error(errc::bad_transaction,
                s.directory + ": the transaction is not prepared, so there is no doubt; abort it");
  s.abort(store_state::doubt::stays);
  forget();
}

ticket transaction::checkpoint(commit_mode mode) {
  store_state& s = require_outermost("make a checkpoint");
  s.require_changeable("make a checkpoint");
  const ticket done = s.finish(store_state::access_after::kept);
  state_ = nullptr;
  s.reopen();
  state_ = &s;
  if (mode == commit_mode::durable) s.memory->wait(done);
  return done;
}

ticket transaction::chain(commit_mode mode) {
  store_state& s = require_outermost("be chained");
  s.require_changeable("be chained");
  const ticket done = commit(mode);
  s.begin();
  state_ = &s;
  return done;
}

void transaction::label(std::string_view name) {
  store_state& s = require_open();
  s.require_changeable("label the transaction");
  s.label = name;
}

void transaction::touch(void* address, std::size_t length) {
  store_state& s = require_open();
  s.require_changeable("touch memory");
  s.tx.touch(address, length);
}

}  // namespace tenure
