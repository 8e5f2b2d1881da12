// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The state of a tenure::rvm::memory. It opens the log, makes the parts, connects them, and closes them in order. Each
// part has its own state and its own lock.
//
// The order of locks: map_mutex (region_mapper); the truncation lock (truncator); the commit lock (log_writer); the
// log's status lock; then the innermost ones, those of the list of transactions, of the page queue and of the table of
// segments. The log's writer holds no lock while it writes [rvm.locks].
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <tenure/rvm.hpp>

#include "log/counters.hpp"
#include "log/local_log.hpp"
#include "records/archive_writer.hpp"
#include "records/log_writer.hpp"
#include "records/prepared_record.hpp"
#include "records/thresholds.hpp"
#include "regions/opening.hpp"
#include "regions/region_mapper.hpp"
#include "regions/tracked_regions.hpp"
#include "replay/truncator.hpp"
#include "segments/segment_table.hpp"
#include "transactions/transaction_table.hpp"

namespace tenure::rvm {

[[nodiscard]] std::unique_ptr<log_files> make_new_log(os::disk& disk, const std::string& path, const log_options& how,
                                                      const progress_callback& progress);

// prepared.cpp
[[nodiscard]] outcome outcome_of(const options& how, const std::string& log_path, const prepared_transaction& what);

class memory_state final : public truncation_host {
 public:
  memory_state(const std::string& path, const options& how);
  ~memory_state();
  memory_state(const memory_state&) = delete;
  memory_state& operator=(const memory_state&) = delete;

  [[nodiscard]] const opening& of() const { return opening_; }
  [[nodiscard]] os::disk& disk() const { return disk_; }
  [[nodiscard]] region_mapper& mapper() { return *mapper_; }
  [[nodiscard]] const recovery_report& report() const { return report_; }
  [[nodiscard]] const std::optional<prepared_transaction>& in_doubt() const { return in_doubt_; }

  [[nodiscard]] transaction_state& begin(restore_mode mode) { return writable().transactions.begin(mode); }
  [[nodiscard]] transaction_state& begin_automatic() { return writable().transactions.begin_automatic(); }
  [[nodiscard]] std::vector<std::uint64_t> open_ids() const;
  [[nodiscard]] std::vector<open_transaction> open_transactions(const region_state* in) const;

  // See memory::require_usable.
  void require_usable() const;
  void flush();
  [[nodiscard]] ticket last_commit() const;
  void wait(ticket until);
  void truncate();
  std::uint64_t truncate_incrementally(std::uint64_t bytes);
  backup_report backup(const std::string& directory, const backup_options& how);
  void create_segment(const std::string& path, const segment_options& how);
  [[nodiscard]] std::vector<segment_member> members() const;
  void confirm_member(const std::string& path, bool durably);
  void drop_member(const std::string& path);
  void close();
  // The program destroys the memory object while transactions are open. Releases all files and their locks. The state
  // lives until the last transaction ends.
  static void leave(std::unique_ptr<memory_state> state) noexcept;

  [[nodiscard]] tuning tune() const;
  void set_tuning(const tuning& how);

  // Throws if an invariant of any part does not hold. Called while no other thread uses this memory.
  void check();

  // statistics.cpp
  [[nodiscard]] statistics stats() const;
  [[nodiscard]] std::uint64_t stray_writes() const { return count_.tracking.stray_writes.get(); }
  [[nodiscard]] std::uint64_t last_transaction() const { return writing_ ? writing_->transactions.last_id() : 0; }
  [[nodiscard]] log_totals totals() const;

  // truncation_host
  segment* find_segment(const segment_name& name) override { return &segments_->find(name); }
  [[nodiscard]] page_set referenced_pages() override { return writing_->transactions.referenced_pages(); }
  void pages_written(const std::vector<dirty_page>& pages) noexcept override;
  void pages_damaged(const std::vector<page_ref>& pages) noexcept override;
  void storage_failed(const error& why) override { writing_->writer.fail(why); }

 private:
  // For an opening that is not read-only.
  struct writing {
    writing(memory_state& of, archive_writer* archive);
    page_queue queue;
    truncator truncation;
    tracked_regions tracked;
    log_writer writer;
    transaction_table transactions;
  };

  void open_log();
  [[nodiscard]] std::unique_ptr<log_files> create_log_with_member();
  [[nodiscard]] writing& writable();
  void redo_prepared(const prepared_contents& found);
  void change_list(const std::function<void(manifest&)>& change);
  // Stops all threads and unmaps. Nothing is written afterwards.
  void stop() noexcept;
  // Calls stop(), and releases all files and their locks.
  void let_go() noexcept;
  // The contents of the manifest after a clean close.
  [[nodiscard]] total_slots totals_to_store() const;

  options how_;
  opening opening_;
  os::disk& disk_;
  const thresholds limits_;
  const error not_restored_, still_prepared_, left_in_doubt_;  // made in advance, because memory may be short later

  counters count_;
  recovery_report report_;
  total_slots totals_at_open_{};
  std::optional<local_log> log_;
  std::optional<prepared_transaction> in_doubt_;
  std::optional<archive_writer> archive_;
  std::optional<segment_table> segments_;
  region_table regions_;
  checking_mode checking_;
  std::optional<writing> writing_;
  std::optional<region_mapper> mapper_;

  mutable std::mutex tuning_mutex_;  // innermost
  tuning tune_;
};

}  // namespace tenure::rvm
