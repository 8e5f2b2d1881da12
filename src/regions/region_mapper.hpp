// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Mapping segments: making regions, letting them grow with their segments, giving private copies of pages back, and
// unmapping [RVM §4.1, §4.2]. Owns the regions of a memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include <tenure/rvm/options.hpp>
#include <tenure/rvm/region.hpp>

#include "records/log_writer.hpp"
#include "records/page_queue.hpp"
#include "regions/opening.hpp"
#include "regions/region.hpp"
#include "regions/region_users.hpp"
#include "regions/tracked_regions.hpp"
#include "replay/truncator.hpp"
#include "segments/segment_table.hpp"

namespace tenure::rvm {

class paged_state;

// What checking mode does to regions (checking.cpp).
struct checking_mode {
  std::atomic<bool> on{false};
  std::atomic<bool> shadows{false};  // some region has one
};

// Thread-safe.
class region_mapper {
 public:
  // Of a memory that is not read-only.
  struct writing {
    page_queue& queue;
    truncator& truncation;
    log_writer& writer;
    tracked_regions& tracked;
    region_users& users;
  };
  struct settings {
    os::disk& disk;
    bool background;  // there may be threads
    const thresholds& limits;
    progress_callback progress;
  };
  region_mapper(const opening& of, const durable_log& log, segment_table& segments, region_table& regions,
                checking_mode& checking, counters& count, const settings& how)
      : opening_(of),
        log_(log),
        segments_(segments),
        regions_(regions),
        checking_(checking),
        count_(count),
        how_(how) {}

  // Before anything else, either of them.
  void write_with(const writing& parts) { writing_.emplace(parts); }
  void only_read(const log_part& live) { live_ = live; }

  std::shared_ptr<region_state> map(const std::string& path, const map_options& want);
  void unmap(region_state& what);
  // Those that could not be unmapped when they were given up.
  void unmap_left();
  // paged_segments.cpp
  std::shared_ptr<paged_state> open_pages(const std::string& path);
  void close_pages(paged_state& what);
  // Unmaps all, whatever uses them.
  void abandon() noexcept;
  void read_ahead(region_state& what, std::size_t length);
  void advise_by_size(region_state& what);
  std::uint64_t grow_segment(const std::string& path, std::uint64_t want);
  // Space on the disk for what was cleared.
  void allocate(segment& in, std::uint64_t offset, std::uint64_t length);
  std::size_t back_with_file(region_state& what, std::size_t offset, std::size_t length);

  // As in memory.
  [[nodiscard]] segment_info describe(const std::string& path);
  [[nodiscard]] std::uint64_t length_of(const std::string& path, bool raw);
  [[nodiscard]] std::vector<std::uint64_t> verify(const std::string& path);

  [[nodiscard]] const opening& of() const { return opening_; }
  [[nodiscard]] const region_table& regions() const { return regions_; }
  // Pages that are durable in their segments: drops the process's copies of them. In truncation.
  void drop_private_copies(const std::vector<dirty_page>& pages);
  // Throws if an invariant of segments that are open for pages does not hold. With the truncation lock.
  void check_pages() const;
  // Forgets what is kept of pages that are in their segments. In truncation.
  void forget_written_pages(const std::vector<dirty_page>& pages) noexcept;

 private:
  // A segment that is open in a scope, and closed at its end unless a region of it is mapped then. With map_mutex_.
  class open_segment;

  void close_unless_mapped(segment& which);
  void with_paged_list(const std::function<void()>& f);
  static void map_memory(region_state& what, void* address, std::size_t length, bool copy_in);
  static void unmap_memory(region_state& what) noexcept;
  void apply_log(region_state& what) const;
  std::size_t drop_equal(region_state& what, std::size_t from, std::size_t to, bool anonymous);

  const opening& opening_;
  const durable_log& log_;
  segment_table& segments_;
  region_table& regions_;
  checking_mode& checking_;
  counters& count_;
  const settings how_;
  std::optional<writing> writing_;
  log_part live_{};  // of a log that is only read

  std::vector<std::shared_ptr<paged_state>> paged_;  // changed with map_mutex and the truncation lock

  std::mutex mutex_;  // map_mutex: mapping, unmapping, opening and closing segments
};

}  // namespace tenure::rvm
