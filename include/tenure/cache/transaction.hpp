// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Transactions of a store in a cache (tenure/cache/store.hpp).
#pragma once

#include <utility>

#include <tenure/commit_mode.hpp>
#include <tenure/rvm/commit.hpp>

namespace tenure::cache {

#pragma GCC visibility push(default)  // libtenure.so exports it

class store;
struct open_transaction;

using rvm::ticket;
using tenure::commit_mode;

// A transaction that changes objects. Can be moved. Belongs to the thread that began it, and ends there. Destroying an open one
// aborts it. All functions but is_open throw errc::bad_transaction if it has ended, and in another thread.
class transaction {
 public:
  transaction() = default;
  ~transaction();
  transaction(transaction&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  transaction& operator=(transaction&& other) noexcept;

  // What differs in the objects whose change was announced goes to the log, byte by byte. If it throws, the transaction is open
  // still: it can be aborted, or, if the cause is gone, committed again; errc::cannot_persist, if a plain pointer leads out
  // of the store, or to what another transaction changes; the errors of rvm::transaction::commit. If only the
  // wait for the disk has failed (errc::outcome_unknown), it has ended, as is_open() says.
  ticket commit(commit_mode mode = commit_mode::durable);
  // Changed objects get the values back that they had when their change was announced first, with their transient fields.
  void abort();
  // What dereferences gave is not valid any more, but for what is pinned and for objects that the transaction has changed: other
  // objects may be evicted. For a transaction that reaches more objects than the cache has room for. It keeps everybody else
  // out as before.
  void release();
  [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr; }

 private:
  friend class store;
  explicit transaction(open_transaction* state) : state_(state) {}
  open_transaction* state_ = nullptr;
};

// Keeps transactions that change objects out while it exists. Belongs to the thread that began it, and is destroyed there.
class read_transaction {
 public:
  ~read_transaction();
  read_transaction(read_transaction&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  read_transaction& operator=(read_transaction&&) = delete;

  // As transaction::release. If room must be made, it waits until all other threads have done the same, or have ended their
  // transactions.
  void release();

 private:
  friend class store;
  explicit read_transaction(open_transaction* state) : state_(state) {}
  open_transaction* state_;
};

#pragma GCC visibility pop

}  // namespace tenure::cache
