// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An open transaction: its declared ranges, and the old values that an abort puts back. There are two kinds, with one
// way to commit. An explicit_transaction declares everything. An automatic_transaction finds its changes in tracked
// regions by itself.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <tenure/rvm/transaction.hpp>

#include "log/counters.hpp"
#include "os/cleared_memory.hpp"
#include "records/log_writer.hpp"
#include "records/page_references.hpp"
#include "regions/region.hpp"
#include "transactions/paged_changes.hpp"

namespace tenure::rvm {

class transaction_table;

// Shared by an inner transaction and the transaction in which it is.
struct inner_level {
  transaction_state* of;  // nullptr: it has ended
};

// Used by one thread at a time, except where a comment says otherwise.
class transaction_state : public commit_source {
 public:
  struct declared {
    std::byte* from;
    std::size_t length;
    region_state* in;
    [[nodiscard]] std::byte* end() const { return from + length; }
  };
  // Pages that will be written straight to the segment.
  struct bulk_write {
    region_state* in;
    std::size_t offset, length;                // in the region, bytes
    os::cleared_vector<os::const_bytes> from;  // none: the pages are cleared
  };

  explicit transaction_state(transaction_table& of) : owner_(of) {}
  virtual ~transaction_state() { end_levels(); }
  transaction_state(const transaction_state&) = delete;
  transaction_state& operator=(const transaction_state&) = delete;

  // Takes the object if it is free. The thread that has taken it owns it until it releases it. May be called by any
  // thread.
  [[nodiscard]] bool take() noexcept { return !open_.exchange(true, std::memory_order_acquire); }
  // The next thread that takes it says late who it is: until then it is of no thread.
  void let_go() noexcept {
    thread_.store(0, std::memory_order_relaxed);
    open_.store(false, std::memory_order_release);
  }
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }
  [[nodiscard]] transaction_table& owner() const { return owner_; }

  // What the program does with a transaction.
  void begin(std::uint64_t id, restore_mode mode, std::uint64_t thread) noexcept;
  void set_range(std::byte* from, std::size_t length);
  void hold(std::byte* from, std::size_t length);
  void write_bulk(region_state& in, std::size_t offset, std::span<const os::const_bytes> from);
  void clear(region_state& in, std::size_t offset, std::size_t length);
  void change(const std::shared_ptr<paged_state>& in, std::uint64_t offset, os::const_bytes from);
  void set_label(std::string_view name);
  void join(participant& who);
  // Inner transactions (inner_levels.cpp).
  [[nodiscard]] std::shared_ptr<inner_level> begin_inner();
  [[nodiscard]] std::size_t inner_depth() const { return levels_.size(); }
  // `level`: the innermost one.
  void commit_inner(const inner_level& level);
  void abort_inner(const inner_level& level);
  // As abort_inner(). If memory is too short for it, the transaction can only be aborted from now on.
  void drop_inner(const inner_level& level) noexcept;
  ticket commit(commit_mode mode);
  // prepared.cpp
  void prepare(std::string_view global_id);
  [[nodiscard]] bool is_prepared() const { return is_prepared_; }
  void leave_in_doubt();
  void abort();
  // Ends the transaction: aborts it, or, if it was begun with no_restore, leaves its changes in memory.
  void drop() noexcept;
  // Finds the changes in tracked regions before the commit. Only automatic transactions do that.
  virtual std::span<const memory_range> collect_changes() = 0;
  virtual void for_each_written_page(const callback<void(const memory_range&)>&) const {}
  // What bytes of a tracked region were before the transaction, which has collected its changes.
  virtual void read_committed(const std::byte* from, std::size_t length, std::byte* into) const;
  // Undoes collect_changes(), and forgets what was to be written in bulk.
  virtual void discard_changes() noexcept = 0;
  // The changes in tracked regions that commit has found.
  [[nodiscard]] virtual std::span<const memory_range> changes() const = 0;

  // For queries, from any thread.
  [[nodiscard]] std::uint64_t id() const { return id_.load(std::memory_order_relaxed); }
  // The number of the thread that has begun it; 0: it is beginning, or has ended.
  [[nodiscard]] std::uint64_t thread() const { return thread_.load(std::memory_order_relaxed); }
  [[nodiscard]] open_transaction describe() const;                  // with the list's lock held
  [[nodiscard]] virtual bool uses(const region_state& in) const;    // with the list's lock held
  void add_touched_to(page_set& pages) { touched_.add_to(pages); }  // with the list's lock held
  // The sums over all committed transactions that have used this object.
  struct totals {
    single_writer_counter flush_commits, no_flush_commits, ranges_declared, bytes_declared, ranges_merged, bytes_merged;
  };
  [[nodiscard]] const totals& all_committed() const { return totals_; }

  // For checking mode. Other threads must hold the list's lock.
  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] std::span<const declared> ranges() const { return ranges_; }
  [[nodiscard]] std::span<const bulk_write> bulk() const { return bulk_; }

  // The program has released the memory, which lives until this transaction ends.
  void keep(std::shared_ptr<void> memory) { kept_ = std::move(memory); }
  [[nodiscard]] std::shared_ptr<void> take_kept() { return std::move(kept_); }

  // Throws if an invariant does not hold. Called by the transaction's own thread.
  void check() const;

  // From commit_source:
  commit_image prepare(bool lazy) final;
  void undo_prepare() noexcept final;
  [[nodiscard]] std::span<const page_ref> pages() const final { return touched_.all(); }
  void captured() noexcept final;

 protected:
  // --- What differs between the two kinds ---
  // Declares a range in a region that is tracked automatically.
  virtual void set_tracked_range(region_state& in, std::byte* from, std::size_t length) = 0;
  // Throws if it cannot change pages of segments that are not mapped.
  virtual void require_pages_may_change() const {}
  // Passes the transaction to the log's writer. Returns when its values are captured, or later.
  virtual ticket log(commit_mode mode) = 0;
  // Finds what log() would log, and forgets it again behind the second call.
  virtual void find_what_to_log() {}
  virtual void forget_found() noexcept {}
  // Whether all declarations are the program's. Layers above declare for automatic transactions, while they commit.
  [[nodiscard]] virtual bool declares_everything() const = 0;
  // log(), or a step before it, has failed: nothing is captured.
  virtual void logging_failed() noexcept = 0;
  // log() has not failed. Returns when the transaction is as durable as `mode` requires.
  virtual void logged(ticket at, commit_mode mode) = 0;
  // Puts the old values back into memory.
  virtual void restore() noexcept = 0;
  // What changes in tracked regions is kept by level: as it is when an inner transaction begins. Called for the innermost one.
  virtual void begin_tracked_level() {}
  virtual void restore_tracked_level() {}
  virtual void end_tracked_level() noexcept {}
  // For the counters: the number of ranges that the program has declared.
  [[nodiscard]] virtual std::uint64_t declared_ranges(std::uint64_t merged) const = 0;
  [[nodiscard]] virtual std::uint64_t declared_bytes(std::uint64_t merged) const = 0;
  virtual void reset_kind() noexcept = 0;

  // All of them, or those that were saved after the first `kept` ones.
  void put_back_old_values(std::size_t kept = 0) noexcept;
  // Lists the pages of a range that will be logged.
  void refer_to_pages(region_state& in, const std::byte* from, std::size_t length);
  void declare(const declared& range) { ranges_.push_back(range); }
  // Forgets the ranges in regions that are tracked automatically.
  void forget_tracked_ranges() noexcept;
  void forget_bulk() noexcept { bulk_.clear(); }
  // Whether what is written in bulk goes through the log, because somebody needs a log that has every change.
  [[nodiscard]] bool is_bulk_logged();
  [[nodiscard]] bool is_preparing() const { return preparing_; }
  [[nodiscard]] std::string name() const { return "transaction " + std::to_string(id()); }

  std::uint64_t declared_ranges_now() const { return ranges_declared_.get(); }
  std::uint64_t declared_bytes_now() const { return bytes_declared_.get(); }

 private:
  struct old_value {
    std::byte* at;
    std::size_t length;
    std::size_t saved;  // offset in saved_
  };
  // What there was when an inner transaction began.
  struct outer {
    std::shared_ptr<inner_level> inner;
    std::size_t level_begin, merged, undo, saved, bulk, paged;
  };

  [[nodiscard]] region_state& region_of(const std::byte* from, std::size_t length);
  [[nodiscard]] bool is_declared(const std::byte* from, std::size_t length) const;
  void enter(region_state& in);
  void merge();
  void require_bulk(const region_state& in, std::size_t offset, std::uint64_t length) const;
  void write_bulk_to_segments();
  void add_bulk_values();
  void drop_references() noexcept;
  void require_may_change() const;
  // The outcome is known; `logged`: and it is in the log.
  void end_prepared(bool logged) noexcept;
  void require_innermost(const inner_level& level, const char* to) const;
  void require_no_inner() const;
  void require_not_doomed() const;
  void end_level() noexcept;
  void end_levels() noexcept;
  // Ends the transaction. `committed`: the mode of its commit; none if it was not committed.
  void end(std::optional<commit_mode> committed) noexcept;
  void reset();
  // The lock under which other threads read the lists; no lock if they never do.
  [[nodiscard]] std::unique_lock<std::mutex> lock_for_checking() const;

  transaction_table& owner_;
  // True: the object belongs to an open transaction. False: any thread may take it for a new one.
  std::atomic<bool> open_{false};
  std::atomic<std::uint64_t> id_{0}, thread_{0};
  std::atomic<restore_mode> mode_{restore_mode::restore};
  std::string label_;  // changed under the list's lock
  // Declared ranges. Those of the innermost inner transaction begin at level_begin_. Of these, the ones before merged_ are
  // sorted, disjoint and not adjacent; the others are in the order of declaration.
  os::cleared_vector<declared> ranges_;
  std::size_t level_begin_ = 0, merged_ = 0;
  std::vector<outer> levels_;
  bool is_doomed_ = false;  // an inner transaction could not be undone
  os::cleared_vector<old_value>
      undo_;  // in the order of declaration; put back last to first [rvm.transaction.undo-order]
  os::cleared_vector<std::byte> saved_;
  page_references touched_;
  // The regions of the ranges. Mostly there is one.
  std::atomic<region_state*> first_region_{nullptr};
  std::vector<region_state*> other_regions_;  // changed under the list's lock
  region_state* last_region_ = nullptr;
  std::vector<participant*> participants_;
  std::size_t prepared_ = 0;       // number of participants for which prepare() has run
  bool preparing_ = false;         // the participants' prepare() is running
  bool logs_bulk_values_ = false;  // what is written in bulk goes through the log: it is being prepared
  bool is_prepared_ = false;
  bool may_change_ = true;
  // The lengths of the undo lists before prepare(), until the values are captured or given up.
  // Old values of ranges that participants have declared in prepare() lie between these.
  struct kept_values {
    std::size_t undo = 0, saved = 0;
  };
  kept_values before_prepare_, after_prepare_;
  os::cleared_vector<new_value> values_;  // while committing
  std::vector<bulk_write> bulk_;          // in checking mode changed under the list's lock
  std::vector<bulk_run> bulk_runs_;
  std::optional<bool> bulk_logged_;
  paged_changes paged_;
  single_writer_counter ranges_declared_, bytes_declared_;
  totals totals_;
  std::shared_ptr<void> kept_;
};

// A transaction that declares everything.
class explicit_transaction final : public transaction_state {
 public:
  using transaction_state::transaction_state;

  std::span<const memory_range> collect_changes() override;
  void discard_changes() noexcept override { forget_bulk(); }
  [[nodiscard]] std::span<const memory_range> changes() const override { return {}; }

 private:
  void set_tracked_range(region_state& in, std::byte* from, std::size_t length) override;
  [[nodiscard]] bool declares_everything() const override { return true; }
  ticket log(commit_mode mode) override;
  void logging_failed() noexcept override {}
  void logged(ticket, commit_mode) override {}
  void restore() noexcept override { put_back_old_values(); }
  [[nodiscard]] std::uint64_t declared_ranges(std::uint64_t) const override { return declared_ranges_now(); }
  [[nodiscard]] std::uint64_t declared_bytes(std::uint64_t) const override { return declared_bytes_now(); }
  void reset_kind() noexcept override {}
};

}  // namespace tenure::rvm
