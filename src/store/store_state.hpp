// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An open store.
//
// The order of locks [heap.locks]: the access lock (one writer, or readers); the lock of births; the type index's lock;
// the locks of rvm. The writer needs no lock for persistent objects.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tenure/rvm/participant.hpp>
#include <tenure/store.hpp>

#include "objects/database_set.hpp"
#include "objects/hidden_fields.hpp"
#include "store/access_lock.hpp"
#include "store/access_recording.hpp"
#include "store/collector.hpp"
#include "store/inner_level.hpp"
#include "store/open_stores.hpp"
#include "store/pinned_types.hpp"
#include "store/weak_references.hpp"

namespace tenure {

// Whether the program's types are compared with those of a store that is opened.
enum class type_check { registered, none };

struct store_state final : rvm::participant {
  store_state(const std::string& directory, const store_options& how, type_check check = type_check::registered);
  ~store_state() override;

  void require_usable() const;
  void require_writable() const;
  // Throws unless this thread is the writer.
  void require_transaction(const char* what) const;
  // And that its transaction may change something: it is not prepared.
  void require_changeable(const char* what) const;
  [[nodiscard]] bool is_writer() const { return access.is_writer(); }
  // Aborts this thread's transaction if another one has destroyed the program's object of it.
  void end_abandoned();
  [[nodiscard]] heap::maker maker() const { return is_writer() ? heap::maker::writer : heap::maker::other; }

  database_state& create_database(std::string_view name, const database_options& how);
  [[nodiscard]] std::string file_of(std::string_view database) const {
    return directory + "/" + std::string(database) + ".db";
  }
  void open_databases();
  database_state& open_database(const rvm::segment_member& member, bool may_be_gone);
  void drop_database(const std::string& file);
  [[nodiscard]] error is_missing(const std::string& file) const;
  [[nodiscard]] error was_never_used() const;
  [[nodiscard]] bool log_was_used() const;
  void initialize(database_state& made);

  // write_transaction.cpp. The thread has no open transaction of the store.
  void begin();
  // Returns the ticket to wait for.
  ticket commit();
  // Commits and ends the transaction. If the access lock is kept, reopen() begins the next transaction before any other
  // thread gets the lock.
  enum class access_after { released, kept };
  ticket finish(access_after then);
  void reopen();
  // The first phase of two: the transaction can only commit and abort from now on.
  void prepare_commit(std::string_view global_id);
  enum class doubt { none, stays };  // stays: of one that is prepared, after the process, too
  void abort(doubt after = doubt::none);
  // Forgets what belongs to the transaction that has just ended.
  void ended() noexcept;

  // inner_transactions.cpp. `which`: what begin_inner() has returned.
  std::shared_ptr<const bool> begin_inner();
  void commit_inner(const bool& which);
  // With those that are in it. If memory is too short, it throws, and nothing has changed.
  void abort_inner(const bool& which);
  // The same, but then the transaction can only be aborted.
  void drop_inner(const bool& which) noexcept;
  void abort_innermost();
  void innermost_ended() noexcept;
  // The open ones end, and what they have made is the outermost one's.
  void end_levels() noexcept;
  void require_no_inner(const char* what) const;

  // At the end of a commit: transient objects to which nothing leads go, if enough were made since the last time.
  void collect_young() noexcept;

  // As store::trim().
  std::uint64_t trim(const rvm::progress_callback& on_progress);

  // rvm::participant
  void prepare(rvm::commit_scope&) override {}
  void undo_prepare(rvm::commit_scope&) noexcept override {}
  void captured(rvm::commit_scope&) noexcept override { hidden.put_back(); }
  void committed(rvm::commit_scope&) noexcept override {}
  void aborted(rvm::commit_scope&) noexcept override {}

  // Called with the access lock held, before objects are used. Starts reading ahead the first time [heap.read-ahead].
  void use() {
    if (!used.load(std::memory_order_relaxed) && !used.exchange(true)) [[unlikely]]
      read_ahead();
  }
  void read_ahead();

  void close();
  // Closes it while transactions are open: they are aborted.
  void abandon() noexcept;

  // Throws if an invariant does not hold, of the heap or of the memory below. Called by the writer, or while nobody
  // writes.
  void check() const;
  // The same without the memory below, of which a check takes a look at each page.
  void check_heap() const;
  void check_in_debug_builds() const;  // at the end of each transaction

  std::atomic<bool> used{false};
  const std::string directory;
  store_options how;
  bool read_only = false;
  std::atomic<bool> closed{false};
  const type_check check_types;
  std::uint32_t fork_generation;
  std::unique_ptr<rvm::memory> memory;
  std::optional<database_set> databases;
  std::optional<access_recording> recording;
  mutable heap::access_lock access;
  collector collection;

  std::atomic<bool> abandoned{false};  // by another thread than the writer

  // Used by the writer.
  store_state* outer = nullptr;  // the store in which the thread has begun another transaction before
  rvm::transaction tx;
  bool prepared = false;
  std::string label;
  std::vector<inner_level> levels;  // of inner transactions that are open
  saved_objects spare;              // memory of one that has ended in the open transaction
  bool doomed = false;              // an inner one could not be undone
  bool stays_in_place = false;      // what the open transaction has made; with stabilization::copying
  heap::hidden_fields hidden;
  weak_references weak{*this};
  pinning_types pinning;                 // for copying
  std::uint64_t made_at_last_young = 0;  // bytes

  mutable std::mutex statistics_mutex;
  store_statistics counts;

 private:
  struct ending;
};

// Converts a closed store to the program's types (evolve.hpp). Throws as compact(); errc::schema_mismatch if it cannot.
void convert_store(const std::string& directory, const store_options& how);

// Refuses a directory for a backup that is the store's own, or in it.
void require_outside(const std::string& store, const std::string& directory);

// Reads in the thread's open transaction, or with the access lock held for reading.
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

}  // namespace tenure
