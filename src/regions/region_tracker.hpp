// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Automatic tracking of one region: which bytes an automatic transaction has changed, and what an abort puts back. The
// mechanisms find candidates, pages that may have been written (write_finder.hpp). A comparison with the committed image
// tells what did change (committed_image.hpp).
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <tenure/rvm/options.hpp>
#include <tenure/rvm/participant.hpp>
#include <tenure/rvm/region.hpp>

#include "log/counters.hpp"
#include "os/cleared_memory.hpp"
#include "os/fault.hpp"
#include "records/page_queue.hpp"
#include "records/thresholds.hpp"
#include "regions/announced_stores.hpp"
#include "regions/committed_image.hpp"
#include "regions/page_backing.hpp"
#include "regions/page_difference.hpp"
#include "regions/region.hpp"
#include "regions/tracked_pages.hpp"
#include "regions/write_finders.hpp"

namespace tenure::rvm {

// What the trackers of a memory share.
struct tracking_host {
  tracking_host(counters::tracking_part& counts, const page_queue& pages,
                const callback<void(const stray_write&)>& on_stray_write,
                const callback<void(const unseen_store&)>& on_unseen_store, const thresholds& of)
      : count(counts), queue(pages), observer(on_stray_write), unseen_observer(on_unseen_store), limits(of) {}

  counters::tracking_part& count;
  const page_queue& queue;
  const callback<void(const stray_write&)>& observer;
  const callback<void(const unseen_store&)>& unseen_observer;
  const thresholds limits;
  std::atomic<bool> in_transaction{false};  // an automatic one is open
  std::atomic<bool> failed{false};          // nothing will be committed any more: writes do not matter
};

// "With the right": with the automatic right (automatic_right.hpp). Any thread may call the other functions.
class region_tracker final : public os::write_trap, private store_listener {
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

  // A transaction begins. Compares what is open, puts the committed image back where recoverable bytes were written, and
  // returns on how many pages these were. With the right.
  std::size_t begin(std::uint32_t transaction);
  // The transaction will write to these bytes: opens their pages ahead. With the right.
  void announce(std::byte* from, std::size_t length);
  // Copies the committed image of these bytes. With the right.
  void read_committed(const std::byte* from, std::size_t length, std::byte* into) const noexcept;
  // Pages with these bytes will be logged with the values that they have now, whether or not these are found to differ.
  // With the right, after collect().
  void log_without_comparison(std::byte* from, std::size_t length);
  // The same; but what is logged is not what memory has. Memory keeps that when truncation writes the other to the file.
  void log_other_values(std::byte* from, std::size_t length);
  // These pages have been written to the segment without the log. With the right, after collect().
  void written_in_bulk(std::byte* from, std::size_t length);
  // Which bytes count: what is logged, or what an abort puts back.
  enum class counted { recoverable, restorable };
  // Finds what has changed, and adds it to `changes`, in ascending order. May be repeated. With the right.
  void find(os::cleared_vector<memory_range>& changes, counted which);
  // The same for a commit, which is counted.
  void collect(os::cleared_vector<memory_range>& changes);
  // Calls f with each page that was compared for that. With the right, after collect().
  template <class F>
  void for_each_collected_page(const F& f) const {
    for (const candidate& c : candidates_) f(pages_.range_of(c.page));
  }
  // What was collected is committed, or given up: the committed image becomes memory, or memory the committed image. Pages
  // are closed, or stay open because they are hot. With the right.
  void committed(std::span<const memory_range> changes) noexcept;
  // False if memory was short and a page could not be restored; all others were.
  [[nodiscard]] bool aborted() noexcept;

  // Truncation has written this page of the segment.
  void page_written(std::uint64_t page);
  // Whether give_back_written() has something to do.
  [[nodiscard]] bool has_written_pages() const noexcept { return has_written_.load(std::memory_order_acquire); }
  // Drops before-images and private copies of pages that are in the file now. With the right, outside of transactions, and
  // while no truncation is in progress.
  void give_back_written();

  [[nodiscard]] std::size_t before_images() const noexcept { return committed_.before_images(); }  // with the right
  // Throws if an invariant does not hold. While no transaction of the region ends.
  void check() const;

  void open_untracked(std::byte* from, std::size_t length);
  [[nodiscard]] bool is_open_untracked(const std::byte* at) const noexcept;
  void set_change_filter(change_filter* filter) noexcept { filter_ = filter; }

  // os::write_trap
  answer on_write(std::byte* at) noexcept override;

 private:
  void store_announced(std::byte* at, std::size_t length) noexcept override;
  [[gnu::noinline]] void note_announced(std::byte* at, std::size_t length) noexcept;
  struct candidate {
    page_number page;
    bool differs, all_counts;
    std::uint32_t first, count;  // of `changes`
  };

  enum class compared { wholly, as_announced };
  void prefetch_announced_cards() const noexcept;
  bool find_differences(page_number page, compared how, counted which);
  [[nodiscard]] bool announced_cards_differ(page_number page);
  bool undo_stray_write(page_number page);
  [[nodiscard]] bool is_announced(page_number page) const noexcept;
  void report(const std::byte* at, bool trapped) const;
  void look_for_unseen_stores(page_number page) const;
  [[nodiscard]] std::optional<stretch> first_recoverable_bytes(page_number page, std::uint32_t from,
                                                               std::uint32_t to) const;
  void add_announced_before();
  void report_unseen(page_number page, const stretch& first) const;
  void restore(page_number page);
  std::size_t track_new_pages() noexcept;
  void end() noexcept;
  [[nodiscard]] bool is_in_segment(page_number page) const;
  [[nodiscard]] std::size_t give_back(const protection_guard& lock, std::span<const page_number> pages);

  tracking_host& host_;
  region_state& in_;
  tracked_pages pages_;
  committed_image committed_;
  write_finders finders_;
  page_backing backing_;
  announced_range announced_;
  bool released_ = false;
  std::atomic<change_filter*> filter_{nullptr};
  const write_barriers barriers_;

  // With the right.
  std::uint32_t transaction_ = 0;
  std::vector<page_number> gathered_;  // all candidates, in ascending order
  std::vector<candidate> candidates_;  // as they were compared
  std::vector<page_number> noted_;     // of these, when they are committed
  std::size_t new_images_ = 0;         // before-images that these need
  std::vector<page_number> as_is_;     // of log_without_comparison()
  std::vector<page_number> in_bulk_;   // of written_in_bulk()
  std::vector<page_number> copied_;    // both
  std::vector<page_number> dropping_;  // equal the file
  page_difference difference_;
  std::vector<stretch> stretches_;
  bool all_counts_ = true;
  std::vector<memory_range> parts_;

  std::mutex written_mutex_;
  std::vector<std::uint64_t> written_;  // pages of the segment
  std::atomic<bool> has_written_{false};
};

}  // namespace tenure::rvm
