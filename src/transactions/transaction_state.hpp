// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An open transaction: what it has declared, and the old values it would put back. There are two kinds behind one way to
// commit: one declares everything (explicit_transaction), the other finds its changes in tracked regions by itself
// (automatic_transaction).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <tenure/rvm/transaction.hpp>

#include "log/counters.hpp"
#include "records/log_writer.hpp"
#include "records/page_references.hpp"
#include "regions/region.hpp"

namespace tenure::rvm {

class transaction_table;

// Used by one thread at a time, except where said.
class transaction_state : public commit_source {
 public:
  struct declared {
    std::byte* from;
    std::size_t length;
    region_state* in;
    [[nodiscard]] std::byte* end() const { return from + length; }
  };
  // Pages to be written straight to the segment.
  struct bulk_write {
    region_state* in;
    std::size_t offset, length;  // in the region, bytes
    std::vector<os::const_bytes> from;
  };

  explicit transaction_state(transaction_table& of) : owner_(of) {}
  virtual ~transaction_state() = default;
  transaction_state(const transaction_state&) = delete;
  transaction_state& operator=(const transaction_state&) = delete;

  // Whoever takes it may use it, until it lets go. Any thread.
  [[nodiscard]] bool take() noexcept { return !open_.exchange(true, std::memory_order_acquire); }
  void let_go() noexcept { open_.store(false, std::memory_order_release); }
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }
  [[nodiscard]] transaction_table& owner() const { return owner_; }

  // What the program does with a transaction.
  void begin(std::uint64_t id, restore_mode mode) noexcept;
  void set_range(std::byte* from, std::size_t length);
  void hold(std::byte* from, std::size_t length);
  void write_bulk(region_state& in, std::size_t offset, std::span<const os::const_bytes> from);
  void set_label(std::string_view name);
  void join(participant& who);
  ticket commit(commit_mode mode);
  void abort();
  // Ends it: aborts, or, if it was begun no_restore, leaves its changes in memory.
  void drop() noexcept;
  // Finds the changes in tracked regions before the commit. Only automatic ones do.
  virtual std::span<const memory_range> settle_changes() = 0;
  // Undoes that, and forgets what was to be written in bulk.
  virtual void take_back_changes() noexcept = 0;
  // In tracked regions, as commit has found them.
  [[nodiscard]] virtual std::span<const memory_range> changes() const = 0;

  // For queries, from any thread.
  [[nodiscard]] std::uint64_t id() const { return id_.load(std::memory_order_relaxed); }
  [[nodiscard]] open_transaction describe() const;                  // with the list's lock held
  [[nodiscard]] virtual bool uses(const region_state& in) const;    // with the list's lock held
  void add_touched_to(page_set& pages) { touched_.add_to(pages); }  // with the list's lock held
  // Of all committed transactions that this object has been.
  struct totals {
    single_writer_counter flush_commits, no_flush_commits, ranges_declared, bytes_declared, ranges_merged, bytes_merged;
  };
  [[nodiscard]] const totals& all_committed() const { return totals_; }

  // For checking mode; from other threads with the list's lock held.
  [[nodiscard]] const std::string& label() const { return label_; }
  [[nodiscard]] std::span<const declared> ranges() const { return ranges_; }
  [[nodiscard]] std::span<const bulk_write> bulk() const { return bulk_; }

  // The memory has been let go, and lives on until this transaction ends.
  void keep(std::shared_ptr<void> memory) { kept_ = std::move(memory); }
  [[nodiscard]] std::shared_ptr<void> take_kept() { return std::move(kept_); }

  // commit_source
  commit_image prepare(bool lazy) final;
  void undo_prepare() noexcept final;
  [[nodiscard]] std::span<const page_ref> pages() const final { return touched_.all(); }
  void captured() noexcept final;

 protected:
  // --- What the kinds do differently ---
  // A range in a region that is tracked automatically.
  virtual void set_tracked_range(region_state& in, std::byte* from, std::size_t length) = 0;
  // Hands the transaction to the log's writer, and returns when its values are captured, or later.
  virtual ticket log(commit_mode mode) = 0;
  // That, or what came before it, has failed: nothing is captured.
  virtual void logging_failed() noexcept = 0;
  // It has not. Returns when the transaction is as durable as `mode` wants it.
  virtual void logged(ticket at, commit_mode mode) = 0;
  // Memory gets the old values.
  virtual void restore() noexcept = 0;
  // For the counters: what the program has declared.
  [[nodiscard]] virtual std::uint64_t declared_ranges(std::uint64_t merged) const = 0;
  [[nodiscard]] virtual std::uint64_t declared_bytes(std::uint64_t merged) const = 0;
  virtual void reset_kind() noexcept = 0;

  void put_back_old_values() noexcept;
  // Lists the pages of a range that is to be logged.
  void refer_to_pages(region_state& in, const std::byte* from, std::size_t length);
  void declare(const declared& range) { ranges_.push_back(range); }
  // Those in regions that are tracked automatically.
  void forget_tracked_ranges() noexcept;
  void forget_bulk() noexcept { bulk_.clear(); }
  [[nodiscard]] bool is_preparing() const { return preparing_; }
  [[nodiscard]] std::string name() const { return "transaction " + std::to_string(id()); }

  std::uint64_t declared_ranges_now() const { return ranges_declared_.get(); }
  std::uint64_t declared_bytes_now() const { return bytes_declared_.get(); }

 private:
  struct old_value {
    std::byte* at;
    std::size_t length;
    std::size_t saved;  // where in saved_
  };
  static constexpr std::size_t not_prepared = ~std::size_t{0};

  [[nodiscard]] region_state& region_of(const std::byte* from, std::size_t length);
  [[nodiscard]] bool is_declared(const std::byte* from, std::size_t length) const;
  void enter(region_state& in);
  void merge();
  void write_bulk_to_segments();
  void drop_references() noexcept;
  // Committed in this mode, or not at all.
  void end(std::optional<commit_mode> committed) noexcept;
  void reset();
  // The lock under which others look at the lists, if they do.
  [[nodiscard]] std::unique_lock<std::mutex> lock_for_checking() const;

  transaction_table& owner_;
  // Belongs to an open transaction; otherwise anybody may take it for a new one.
  std::atomic<bool> open_{false};
  std::atomic<std::uint64_t> id_{0};
  std::atomic<restore_mode> mode_{restore_mode::restore};
  std::string label_;  // changed under the list's lock
  // Declared ranges. The first merged_ of them are sorted, disjoint and not adjacent; the others are as they came.
  std::vector<declared> ranges_;
  std::size_t merged_ = 0;
  std::vector<old_value> undo_;  // in the order of declaration: put back last to first [rvm.transaction.undo-order]
  std::vector<std::byte> saved_;
  page_references touched_;
  // Where the ranges are: mostly in one region.
  std::atomic<region_state*> first_region_{nullptr};
  std::vector<region_state*> other_regions_;  // changed under the list's lock
  region_state* last_region_ = nullptr;
  std::vector<participant*> participants_;
  std::size_t prepared_ = 0;  // how many of them prepare() has run for
  bool preparing_ = false;    // they are being asked
  // What the undo lists held before prepare(), until that is settled.
  std::size_t undo_before_prepare_ = not_prepared, saved_before_prepare_ = not_prepared;
  std::vector<new_value> values_;  // while committing
  std::vector<bulk_write> bulk_;   // in checking mode changed under the list's lock
  std::vector<bulk_run> bulk_runs_;
  single_writer_counter ranges_declared_, bytes_declared_;
  totals totals_;
  std::shared_ptr<void> kept_;
};

// Declares everything.
class explicit_transaction final : public transaction_state {
 public:
  using transaction_state::transaction_state;

  std::span<const memory_range> settle_changes() override;
  void take_back_changes() noexcept override { forget_bulk(); }
  [[nodiscard]] std::span<const memory_range> changes() const override { return {}; }

 private:
  void set_tracked_range(region_state& in, std::byte* from, std::size_t length) override;
  ticket log(commit_mode mode) override;
  void logging_failed() noexcept override {}
  void logged(ticket, commit_mode) override {}
  void restore() noexcept override { put_back_old_values(); }
  [[nodiscard]] std::uint64_t declared_ranges(std::uint64_t) const override { return declared_ranges_now(); }
  [[nodiscard]] std::uint64_t declared_bytes(std::uint64_t) const override { return declared_bytes_now(); }
  void reset_kind() noexcept override {}
};

}  // namespace tenure::rvm
