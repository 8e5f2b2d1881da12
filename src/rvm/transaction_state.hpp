// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An open transaction: what it has declared, and the old values it would put back.
#pragma once

#include <string>
#include <vector>

#include <tenure/rvm.hpp>

#include "rvm/log_writer.hpp"
#include "rvm/page_references.hpp"
#include "rvm/region.hpp"

namespace tenure::rvm {

// Used by one thread at a time, except where said.
struct transaction_state final : commit_source {
  struct declared {
    std::byte* from;
    std::size_t length;
    region_state* in;
    [[nodiscard]] std::byte* end() const { return from + length; }
  };
  struct old_value {
    std::byte* at;
    std::size_t length;
    std::size_t saved;  // where in `saved`
  };

  // Pages to be written straight to the segment.
  struct bulk_write {
    region_state* in;
    std::size_t offset, length;  // in the region, bytes
    std::vector<os::const_bytes> from;
  };

  static constexpr std::size_t not_prepared = ~std::size_t{0};

  explicit transaction_state(memory_state& of) : owner(&of) {}

  memory_state* const owner;
  // Belongs to an open transaction; otherwise anybody may claim it for a new one.
  std::atomic<bool> open{false};
  std::atomic<std::uint64_t> id{0};
  std::atomic<restore_mode> mode{restore_mode::restore};
  std::string label;  // changed under the owner's open_mutex
  // Declared ranges. The first `merged` of them are sorted, disjoint and not adjacent; the others are as they came.
  std::vector<declared> ranges;
  std::size_t merged = 0;
  std::vector<old_value> undo;  // in the order of declaration: put back last to first [rvm.transaction.undo-order]
  std::vector<std::byte> saved;
  page_references touched;
  // Where the ranges are: mostly in one region.
  std::atomic<region_state*> first_region{nullptr};
  std::vector<region_state*> other_regions;  // changed under the owner's open_mutex
  region_state* last_region = nullptr;
  std::vector<participant*> participants;
  std::size_t prepared = 0;  // how many of them prepare() has run for
  // What the undo lists held before prepare(), until that is settled.
  std::size_t undo_before_prepare = not_prepared, saved_before_prepare = not_prepared;
  std::vector<new_value> values;  // while committing
  // Automatic ones only. An automatic transaction has the automatic right until it has `settled` what is in memory.
  std::atomic<bool> automatic{false};  // queries read it
  bool settled = false;
  bool collected = false;             // changes are found, and will not be looked for again
  bool preparing = false;             // participants are being asked
  std::vector<memory_range> changes;  // in automatically tracked regions, as commit has found them
  std::vector<bulk_write> bulk;       // in checking mode changed under the owner's open_mutex
  std::vector<bulk_extent> extents;
  // For query, from any thread.
  own_counter ranges_declared, bytes_declared;
  // Of all committed transactions that this object has been.
  struct {
    own_counter flush_commits, no_flush_commits, ranges_declared, bytes_declared, ranges_merged, bytes_merged;
  } totals;

  void enter(region_state& in);
  [[nodiscard]] bool uses(const region_state& in) const;  // with the owner's open_mutex held
  void set_range(std::byte* from, std::size_t length);
  void set_tracked_range(region_state& in, std::byte* from, std::size_t length);
  // Lists the pages of a range that is to be logged.
  void refer_to_pages(region_state& in, const std::byte* from, std::size_t length);
  // bulk.cpp: references to pages that are about to change and will not be logged; pages for write_bulk.
  void hold(std::byte* from, std::size_t length);
  void write_bulk(region_state& in, std::size_t offset, std::span<const os::const_bytes> from);
  void put_back_old_values() noexcept;
  void drop_references() noexcept;
  void reset();
  static void let_go(transaction& handle) noexcept;

  // commit_source
  commit_image prepare(bool lazy) override;
  void undo_prepare() noexcept override;
  [[nodiscard]] std::span<const page_ref> pages() const override { return touched.all(); }
  void captured() noexcept override;

 private:
  [[nodiscard]] region_state& region_of(const std::byte* from, std::size_t length);
  [[nodiscard]] bool is_declared(const std::byte* from, std::size_t length) const;
  void merge();
};

}  // namespace tenure::rvm
