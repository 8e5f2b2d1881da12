// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Automatic tracking of one region: which pages were written, and what was there before.
//
// The *committed image* of a page is its twin, a copy made when the last automatic transaction that changed it ended; a page
// without a twin equals its page in the file, which the view, a second mapping, shows [rvm.tracking.image]. So finding
// changes is finding candidates, pages that may differ; the committed image says what did change, and what an abort puts
// back. Candidates are found in one of two ways:
//
//   trapping: pages are closed (read-only) at rest. The first write to one comes to on_write(), which opens it. Pages that
//             are written again and again (hot) stay open and are compared at every begin and commit.
//   in bulk:  the whole region is open. The kernel tells which pages were written, by its notes (scan) or because the
//             process has its own copy of them (private_copies).
//
// Memory that a region has grown by may be anonymous instead of the file's: it becomes the file's an extent at a time, when
// that is closed and equals the file [rvm.tracking.extent].
#pragma once

#include <array>
#include <mutex>
#include <span>
#include <vector>

#include <tenure/rvm/options.hpp>
#include <tenure/rvm/region.hpp>

#include "log/counters.hpp"
#include "os/fault.hpp"
#include "os/write_tracking.hpp"
#include "records/page_queue.hpp"
#include "records/thresholds.hpp"
#include "regions/page_difference.hpp"
#include "regions/region.hpp"
#include "regions/tracked_pages.hpp"
#include "regions/twin_store.hpp"
#include "segments/part_set.hpp"

namespace tenure::rvm {

// What the trackers of a memory share.
struct tracking_host {
  tracking_host(counters::tracking_part& counts, const page_queue& pages,
                const callback<void(const stray_write&)>& seen_by, const thresholds& of)
      : count(counts), queue(pages), observer(seen_by), limits(of) {}

  counters::tracking_part& count;
  const page_queue& queue;
  const callback<void(const stray_write&)>& observer;
  const thresholds limits;
  std::atomic<bool> in_transaction{false};  // an automatic one is open
  std::atomic<bool> failed{false};          // nothing will be committed any more: writes do not matter
};

// "With the right": with the automatic right (automatic_right.hpp). The rest may be called by any thread.
class region_tracker final : public os::write_trap {
 public:
  // Closes the region, which is mapped.
  region_tracker(tracking_host& host, region_state& in, const map_options& how);
  ~region_tracker() { release(); }
  region_tracker(const region_tracker&) = delete;
  region_tracker& operator=(const region_tracker&) = delete;
  // The region has grown to `length` bytes; the new ones are mapped, writable, and zero; `anonymous`: not of the file.
  void grow(std::size_t length, bool anonymous);
  // Gives everything back; the region is about to be unmapped, and its faults are not handled any more.
  void release() noexcept;

  // A transaction begins. Looks at what is open, puts the committed image back where recoverable bytes were written, and
  // returns how many pages that concerned. With the right.
  std::size_t begin(std::uint32_t transaction);
  // Opens pages ahead. With the right.
  void announce(std::byte* from, std::size_t length);
  // Opens pages; their bytes are logged as they are. With the right, after collect().
  void log_as_is(std::byte* from, std::size_t length);
  // These pages have been written to the segment without the log. With the right, after collect().
  void written_in_bulk(std::byte* from, std::size_t length);
  // Finds what has changed, and adds it to `changes`, in ascending order. May be repeated. With the right.
  void collect(std::vector<memory_range>& changes);
  // What was collected is committed, or given up: the committed image becomes memory, or memory the committed image. Pages
  // are closed, or stay open because they are hot. With the right.
  void committed(std::span<const memory_range> changes) noexcept;
  // False if memory was short and a page could not be restored; all others were.
  [[nodiscard]] bool aborted() noexcept;

  // Truncation has written this page of the segment.
  void page_written(std::uint64_t page);
  // Whether give_back_written() has something to do.
  [[nodiscard]] bool has_written_pages() const noexcept { return has_written_.load(std::memory_order_acquire); }
  // Drops twins and private copies of pages that are in the file now. With the right, outside of transactions, and while no
  // truncation is in progress.
  void give_back_written();

  [[nodiscard]] std::size_t twins() const noexcept { return twins_.used(); }  // with the right
  // Throws if an invariant does not hold. Where nobody writes to the region, and no transaction of it is ending.
  void check() const;

  void open_untracked(std::byte* from, std::size_t length);
  [[nodiscard]] bool is_open_untracked(const std::byte* at) const noexcept;
  void set_change_filter(change_filter* filter) noexcept { filter_ = filter; }
  void on_stray_write(stray_write_judge judge, void* context) noexcept;

  // os::write_trap
  answer on_write(std::byte* at) noexcept override;

 private:
  enum class bulk : std::uint8_t { none, scan, private_copies };
  struct candidate {
    page_number page;
    bool differs;
    std::uint32_t first, count;  // of `changes`
  };
  using guard = std::unique_lock<protection_lock>;

  [[nodiscard]] page_number page_of(const std::byte* at) const noexcept;
  [[nodiscard]] memory_range range_of(page_number page, std::uint64_t count = 1) const noexcept;
  [[nodiscard]] const std::byte* committed_image(page_number page) const noexcept;
  void remember(page_number page) noexcept;
  void forget(page_number page) noexcept;
  std::size_t track_new_pages() noexcept;

  void restore(page_number page);

  // Candidates.
  void gather();
  void gather_in_bulk();
  [[nodiscard]] std::vector<os::page_run> hot_runs() const;
  bool recoverable_differences(page_number page);
  bool look_at_rest(page_number page);
  void report(const std::byte* at, bool trapped) const;

  // Opening. With the protection lock.
  [[nodiscard]] bool open_run(const guard&, page_number first, std::uint64_t most, counter& opened) noexcept;
  [[nodiscard]] bool open_widely(const guard&, page_number page) noexcept;
  [[nodiscard]] std::uint64_t run_length(page_number page) noexcept;
  void consider_bulk(const guard&) noexcept;
  [[nodiscard]] bool enter_bulk(const guard&, bulk wanted) noexcept;

  // Closing.
  void end() noexcept;
  [[nodiscard]] bool stays_open(tracked_page& page, bool written) noexcept;
  void drop_restored(const guard& lock) noexcept;
  void drop(const guard&, std::span<const page_number> pages);
  [[nodiscard]] bool equals_file(page_number page) const noexcept;
  void end_in_bulk(const guard&) noexcept;
  [[nodiscard]] bool close(const guard&, std::span<const page_number> pages) noexcept;
  [[nodiscard]] bool close_region(const guard&) noexcept;
  [[nodiscard]] bool reopen_untracked(const guard&) noexcept;
  void end_without_lists(const guard&) noexcept;
  [[nodiscard]] std::uint64_t bulk_cost() const noexcept;
  [[nodiscard]] std::size_t give_back(const guard& lock, std::span<const page_number> pages);

  tracking_host& host_;
  region_state& in_;
  const tracking_mechanism mechanism_;
  const bool strict_;
  const std::size_t page_size_;
  std::atomic<std::uint64_t> pages_;  // grows
  std::byte* view_ = nullptr;         // the file, read-only
  lazy_table<tracked_page> table_;    // for all that the region can become
  opened_pages opened_{table_};
  twin_store twins_;
  std::atomic<change_filter*> filter_{nullptr};
  std::atomic<stray_write_judge> judge_{nullptr};
  std::atomic<void*> judge_context_{nullptr};
  std::atomic<std::uint64_t> untracked_{0};  // pages

  // Changed with the protection lock.
  std::atomic<bulk> bulk_{bulk::none};
  protection_lock protection_;
  part_set anonymous_;  // bytes that the file does not back
  os::write_tracking kernel_notes_;
  bool scan_refused_ = false, bulk_refused_ = false;  // by the kernel
  // For choosing: traps of this transaction, and of earlier ones, which fade; at how many to look next; the last run.
  std::uint64_t traps_ = 0, debt_ = 0, next_look_, run_end_ = 0, run_length_ = 1;
  std::uint64_t populated_ = 0;      // pages in memory when the region was opened as a whole
  std::uint32_t cheap_in_bulk_ = 0;  // transactions in a row that trapping would have served better

  // With the right.
  std::uint32_t transaction_ = 0;
  std::vector<page_number> open_;  // taken from opened_, and not closed yet
  std::vector<page_number> hot_;
  std::vector<page_number> found_;     // in bulk: written, in this transaction
  std::vector<page_number> gathered_;  // all candidates, in ascending order
  std::vector<candidate> candidates_;  // as they were compared
  std::size_t new_twins_ = 0;          // that these need
  std::vector<page_number> as_is_;     // of log_as_is()
  std::vector<page_number> in_bulk_;   // of written_in_bulk()
  std::vector<page_number> closing_, dropping_;
  page_difference difference_;
  std::vector<stretch> stretches_;
  std::vector<memory_range> parts_;

  std::mutex written_mutex_;
  std::vector<std::uint64_t> written_;  // pages of the segment
  std::atomic<bool> has_written_{false};
};

}  // namespace tenure::rvm
