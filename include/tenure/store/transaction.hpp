// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions of a store (tenure/store.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include <tenure/commit_mode.hpp>
#include <tenure/rvm/commit.hpp>

namespace tenure {

struct store_state;

#pragma GCC visibility push(default)  // libtenure.so exports it

class store;

// All commits up to a ticket are durable when store::wait(ticket) has returned.
using rvm::ticket;

// A write transaction [PM3 §6.1, figure 5]. Can be moved. Belongs to the thread that began it. Destroying an open one
// aborts it; if that fails, the next use of the store reports the error. All functions except is_open throw
// errc::bad_transaction if the transaction has ended, and errc::closed if its store was destroyed, which aborts it.
//
// One that is begun while the thread has one open in the store is an inner one, in that one. What it does can be undone
// without the rest. Nothing of it is checked or committed to the store before the outermost one commits. The outer one ends
// after it. An abort, or the destruction, of an outer one aborts those that are open in it. So does assigning a new
// transaction to an open one: the new one was in it.
class transaction {
 public:
  transaction() = default;
  ~transaction();
  transaction(transaction&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)), level_(std::move(other.level_)) {}
  transaction& operator=(transaction&& other) noexcept;

  // Makes everything persistent that is reachable from persistent objects [PM3 §5.1], and ends the transaction. A
  // durable commit returns when it is on the disk. Other threads may begin transactions before that. If it throws, the
  // transaction is still open: it can be aborted, or, if the cause is gone, committed again. The exception is a failure
  // of the log: it ends the transaction, and the store cannot be used until it is opened again. The commit of an inner
  // transaction hands what it has done to the outer one; its ticket is of no use. Throws errc::bad_transaction if an inner
  // one is open in it; errc::cannot_persist if an object that the transaction has written, and that is or would become
  // persistent, refers to something that is not in the store, or to a destroyed object. (With store_options::check_destroyed:
  // if any object refers to a destroyed one.) The message has the path from a root, if it is found among the first 100 000
  // objects. Throws errc::doomed if an inner transaction could not be undone for want of memory, and errc::too_big if the
  // log may not grow so far.
  ticket commit(commit_mode mode = commit_mode::durable);
  // Gives persistent objects, with their transient fields, the values that they had at begin() or at the last
  // checkpoint(). Objects that the transaction has made are gone. Transient objects that existed before keep what was
  // written to them. Of an inner transaction: gives persistent objects, and all that the outer one has made or made reachable,
  // the values that they had when the inner one began. Roots, the label, and what the inner one has destroyed are as they were
  // then. Transient objects that are older than the outermost transaction, and that nothing in the store led to then, keep what
  // was written to them. std::bad_alloc: memory is too short to undo an inner one; nothing was changed, but that
  // those in it may have been aborted.
  void abort();
  // The first phase of a two-phase commit: what commit() would do is durable when it returns, but not visible. The transaction
  // stays open, and can only commit and abort: everything else throws errc::bad_transaction, and objects must not be written.
  // If the process ends before that, the store can only be read until the outcome is said: store_options::memory.in_doubt, or
  // `tenure resolve`. Throws what commit() throws, and errc::bad_option for a `global_id` that has not 1 to 255
  // printable bytes; then nothing is prepared. See transact_all.hpp for a coordinator.
  void prepare(std::string_view global_id);
  // For one that is prepared, and cannot learn its outcome: ends it here as abort() does, and leaves it prepared. Then the
  // store must be closed, and opened again when the outcome is known (errc::in_doubt).
  void leave_in_doubt();
  // Commits, and stays open. No other thread gets in between. Throws errc::bad_transaction in an inner transaction, or if
  // one is open. If it is durable and throws because the log failed, the transaction is open and the store cannot be used.
  ticket checkpoint(commit_mode mode = commit_mode::durable);
  // Commits and begins a new transaction. Other threads may get in between. Throws errc::bad_transaction as checkpoint() does.
  ticket chain(commit_mode mode = commit_mode::durable);
  // False also for an inner one that has ended with the outer one.
  [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr && (level_ == nullptr || *level_); }
  // Whether it was begun in another one of the same store.
  [[nodiscard]] bool is_inner() const noexcept { return level_ != nullptr; }
  // A name that the log's history shows (`tenure log history`). If there are several calls, the last one counts.
  void label(std::string_view name);
  // Announces that `length` bytes are about to be written. This saves the traps. It also lets the kernel write there:
  // without it, read(2) into tracked memory fails with EFAULT. Otherwise it is never needed for correctness.
  void touch(void* address, std::size_t length);

 private:
  friend class store;
  transaction(store_state* state, std::shared_ptr<const bool> level) noexcept
      : state_(state), level_(std::move(level)) {}
  void forget() noexcept {
    state_ = nullptr;
    level_.reset();
  }
  [[nodiscard]] store_state& require_open() const;
  [[nodiscard]] store_state& require_outermost(const char* what) const;
  store_state* state_ = nullptr;
  std::shared_ptr<const bool> level_;  // of an inner one: whether it is open
};

// Keeps writers out while it exists. Belongs to the thread that began it, and is destroyed there. A thread may have
// several.
class read_transaction {
 public:
  explicit read_transaction(store_state* state) : state_(state) {}
  ~read_transaction();
  read_transaction(read_transaction&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  read_transaction& operator=(read_transaction&&) = delete;

 private:
  store_state* state_;
};

#pragma GCC visibility pop

}  // namespace tenure
