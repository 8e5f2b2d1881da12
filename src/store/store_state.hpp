// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An open store.
//
// Locks, in the order in which they may be taken [heap.locks]: the access lock (one writer, or readers); that of births; the type
// index's; those of rvm. The writer needs no lock for persistent objects.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tenure/store.hpp>

#include "objects/database_set.hpp"
#include "objects/hidden_fields.hpp"
#include "store/access_lock.hpp"

namespace tenure {

struct store_state final : rvm::participant {
  store_state(const std::string& directory, const store_options& how);
  ~store_state() override;

  void require_usable() const;
  void require_writable() const;
  // The writer is this thread.
  void require_transaction(const char* what) const;
  [[nodiscard]] bool is_writer() const { return access.is_writer(); }
  [[nodiscard]] heap::maker maker() const { return is_writer() ? heap::maker::writer : heap::maker::other; }

  database_state& create_database(std::string_view name, const database_options& how);
  [[nodiscard]] std::string file_of(std::string_view database) const {
    return directory + "/" + std::string(database) + ".db";
  }
  void open_databases();
  [[nodiscard]] bool log_was_used() const;
  void initialize(database_state& made, std::string_view database_name);
  void add_to_table(const database_state& made, std::string_view database_name);

  // write_transaction.cpp
  void begin();
  // What to wait for; nothing if the transaction is an inner one.
  std::optional<ticket> commit();
  // Commits and ends the transaction; with `keep_access` nobody gets in before reopen() begins the next one.
  ticket finish(bool keep_access);
  void reopen();
  void abort();
  // Forgets what the transaction that has just ended knew.
  void ended() noexcept;

  // rvm::participant
  void prepare(rvm::commit_scope&) override {}
  void undo_prepare(rvm::commit_scope&) noexcept override {}
  void captured(rvm::commit_scope&) noexcept override { hidden.put_back(); }
  void committed(rvm::commit_scope&) noexcept override {}
  void aborted(rvm::commit_scope&) noexcept override {}

  // Called with the access lock held, before objects are touched. Starts reading, the first time [heap.read-ahead].
  void use() {
    if (!used.load(std::memory_order_relaxed) && !used.exchange(true)) [[unlikely]]
      read_ahead();
  }
  void read_ahead();

  void close();

  std::atomic<bool> used{false};
  const std::string directory;
  store_options how;
  bool read_only = false, closed = false;
  std::uint32_t fork_generation;
  std::unique_ptr<rvm::memory> memory;
  std::optional<database_set> databases;
  mutable heap::access_lock access;

  // Of the writer.
  store_state* outer = nullptr;  // in which the thread has begun another transaction before
  rvm::transaction tx;
  std::string label;
  std::uint32_t depth = 0;  // of nested begin
  bool doomed = false;
  heap::hidden_fields hidden;

  mutable std::mutex statistics_mutex;
  store_statistics counts;
};

// In the thread's transaction, or while nobody writes.
class reading_scope {
 public:
  explicit reading_scope(store_state& store) : store_(store), inside_(store.is_writer() || store.access.is_reader()) {
    if (!inside_) store_.access.lock_shared();
  }
  ~reading_scope() {
    if (!inside_) store_.access.unlock_shared();
  }
  reading_scope(const reading_scope&) = delete;
  reading_scope& operator=(const reading_scope&) = delete;

 private:
  store_state& store_;
  const bool inside_;
};

// What containers use: the store of the write transaction that the thread has begun last, else the one that was opened last.
[[nodiscard]] store_state* current_store() noexcept;
// The open store that has a database at the address, current_store() first; nullptr: none.
[[nodiscard]] store_state* store_at(const void* address) noexcept;
// The thread has begun a write transaction; it has ended. A thread may have one in each of several stores.
void transaction_begun(store_state& in) noexcept;
void transaction_ended(store_state& in) noexcept;
void store_opened(store_state& which);
void store_closed(store_state& which) noexcept;

}  // namespace tenure
