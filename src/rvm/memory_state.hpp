// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a tenure::rvm::memory is made of.
//
// Locks, in the order in which they may be taken: map_mutex, the truncation lock (truncator), the commit lock (log_writer),
// the log's status lock, open_mutex, the page queue's and segments_mutex (these three innermost). The log's writer holds no
// lock while it writes [rvm.locks].
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <tenure/rvm.hpp>

#include "rvm/automatic_right.hpp"
#include "rvm/counters.hpp"
#include "rvm/local_log.hpp"
#include "rvm/log_writer.hpp"
#include "rvm/region.hpp"
#include "rvm/region_tracker.hpp"
#include "rvm/thresholds.hpp"
#include "rvm/transaction_state.hpp"
#include "rvm/truncator.hpp"

namespace tenure::rvm {

struct memory_state final : truncation_host {
  memory_state(const std::string& path, const options& how);
  ~memory_state();

  // Throws if this memory cannot be used: closed, forked, or failed.
  void require_usable() const;
  void require_writable() const;
  void require_own_process() const;

  // mapping.cpp: segments and mappings
  std::shared_ptr<region_state> map(const std::string& path, const map_options& how);
  void unmap(region_state& what);
  segment& open_segment(const std::string& path, bool raw, bool take_over = false);
  void close_segment_if_unused(segment& which);
  // Closes the segment at the end of a scope unless a region of it is mapped then.
  struct segment_user {
    memory_state& owner;
    segment& in;
    ~segment_user();
  };
  static void map_memory(region_state& what, void* address, std::size_t length, bool copy_in);
  void unmap_memory(region_state& what) noexcept;
  [[nodiscard]] std::string logged_path(const std::string& path) const;
  [[nodiscard]] std::string absolute_segment_path(const std::string& logged) const;
  segment* find_segment(const segment_name& name) override;
  void pages_written(const std::vector<dirty_page>& pages) noexcept override;
  [[nodiscard]] page_set referenced_pages() override;
  void pages_damaged(const std::vector<page_ref>& pages) noexcept override;
  // Puts into the log's status how far each segment has the log's changes.
  void mark_segments(status_block& status);
  void drop_private_copies(const std::vector<dirty_page>& pages);
  void storage_failed(const error& why) override;
  void replay_into(region_state& what);
  // The newest values that a log opened for reading has for a segment.
  [[nodiscard]] redo changes_in_log(segment& of);
  // Takes out of `offsets` the pages that recovery would write anew, whatever they hold now.
  void forget_pages_in_log(segment& of, std::vector<std::uint64_t>& offsets);

  // growth.cpp
  std::uint64_t grow_segment(const std::string& path, std::uint64_t length);
  std::size_t back_with_file(region_state& what, std::size_t offset, std::size_t length);
  std::size_t settle(region_state& what, std::size_t from, std::size_t to, bool anonymous);

  // bulk.cpp: before the commit
  void write_bulk(transaction_state& tx);

  // recovery.cpp
  // The last changes of the segment, if there were any, were made under this log.
  [[nodiscard]] bool is_of_this_log(const segment& in) const {
    return !in.was_changed_elsewhere(status_at_open.log_id);
  }
  static void require_sensible(const tuning& how);
  void open_log();
  void recover();
  void close();
  // Stops everything and unmaps: nothing is written any more.
  void abandon() noexcept;
  // abandon(), and lets go of all files and their locks.
  void let_go() noexcept;

  // statistics.cpp
  [[nodiscard]] statistics stats() const;
  [[nodiscard]] log_totals totals() const;
  // What a clean close writes to the status block.
  [[nodiscard]] total_slots totals_to_store() const;

  // checking.cpp: checking mode
  void make_shadow(region_state& what);
  void require_declared_writes_only(const transaction_state& committing);
  void update_shadow(const transaction_state& committed) noexcept;

  // automatic.cpp: automatic tracking
  void make_tracker(region_state& what, const map_options& how);
  transaction_state* begin_automatic();
  // Finds what the transaction has changed, and declares it.
  void collect_changes(transaction_state& tx);
  // Undoes that: the commit has failed, and the transaction goes on.
  void forget_changes(transaction_state& tx) noexcept;
  // The values are captured, or are to be put back: the committed image and memory agree again, and the next automatic
  // transaction may begin. Returns whether there are so many twins that truncation should make them superfluous.
  [[nodiscard]] bool end_automatic_changes(transaction_state& tx);
  void put_back_committed_image(transaction_state& tx) noexcept;
  // Gives back pages that truncation has written, if none is in progress now, or this is it. With the automatic right.
  void give_back_written_pages(bool in_truncation) noexcept;

  // read_ahead.cpp
  void read_ahead(region_state& what, std::size_t length);

  // transaction.cpp
  transaction_state* begin(restore_mode mode);
  // One that nobody uses, for an open transaction.
  transaction_state& claim();
  // Ends it, committed in this mode or not at all.
  void end(transaction_state& tx, std::optional<commit_mode> committed) noexcept;
  // Ends a transaction that has outlived its memory, and this state with the last of them.
  void end_orphan(transaction_state& tx) noexcept;
  // Calls f for each open transaction, with open_mutex held.
  template <class F>
  void for_each_open(F&& f) const {
    for (const auto& tx : all_transactions)
      if (tx->open.load(std::memory_order_acquire)) f(*tx);
  }
  [[nodiscard]] std::vector<std::uint64_t> open_ids() const;  // sorted

  const std::uint64_t number;  // of this memory in the process: never used again
  const std::string path;
  options how;
  os::disk& disk;
  const std::uint32_t fork_generation;
  const bool read_only;
  const thresholds limits;
  std::atomic<bool> closed{false};

  const error not_restored;  // made before memory is short

  counters count;
  recovery_report report;
  status_block status_at_open{};
  total_slots totals_at_open{};
  std::optional<local_log> log;
  log_part live{};  // of a log opened for reading only
  std::optional<page_queue> queue;
  automatic_right automatic;
  std::optional<tracking_host> tracking;       // of an opening that is not read-only
  std::uint32_t automatic_transactions = 0;    // begun; with the right
  std::size_t many_twins = limits.most_twins;  // to truncate at; with the right
  std::optional<archive_writer> archive;
  std::optional<truncator> truncation;
  std::optional<log_writer> writer;

  std::mutex map_mutex;  // mapping and unmapping; guards `segments` against change
  region_table regions;
  mutable std::mutex segments_mutex;                         // innermost; the map itself
  std::map<std::string, std::unique_ptr<segment>> segments;  // by logged path

  mutable std::mutex open_mutex;                                     // guards the list of transactions, and the tuning
  std::vector<std::unique_ptr<transaction_state>> all_transactions;  // open ones, and those that were
  std::atomic<std::uint64_t> last_id{0};
  tuning tune;
  std::atomic<bool> checking{false};
  std::atomic<bool> shadows{false};  // some region has one
};

}  // namespace tenure::rvm
