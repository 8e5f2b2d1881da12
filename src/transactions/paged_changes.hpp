// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a transaction changes in segments that are open for pages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "os/cleared_memory.hpp"
#include "records/batch.hpp"
#include "regions/paged_state.hpp"

namespace tenure::rvm {

// Used by the transaction's thread.
class paged_changes {
 public:
  paged_changes() = default;
  ~paged_changes() { clear(); }
  paged_changes(const paged_changes&) = delete;
  paged_changes& operator=(const paged_changes&) = delete;

  [[nodiscard]] bool empty() const noexcept { return changes_.empty(); }
  // The bytes are read when the transaction commits. Where changes overlap, the later one holds.
  void add(const std::shared_ptr<paged_state>& to, std::uint64_t offset, os::const_bytes from);

  // Makes room in the segments, and appends the values, in order and disjoint. If it throws, nothing has happened.
  void prepare(os::cleared_vector<new_value>& values);
  void undo_prepare() noexcept;
  void captured() noexcept;

  // The segments; none is used any more after clear().
  [[nodiscard]] const std::vector<std::shared_ptr<paged_state>>& segments() const noexcept { return segments_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] std::size_t ranges() const noexcept { return changes_.size(); }
  // Forgets those behind the first `count` ranges.
  void shorten(std::size_t count) noexcept { os::shorten(changes_, count); }
  void clear() noexcept;

 private:
  struct change {
    paged_state* to;
    new_value value;  // in one page
    [[nodiscard]] std::uint64_t page() const { return value.offset / redo_page; }
  };
  struct changed_page {
    paged_state* in;
    std::uint64_t page;
    std::size_t first, count;  // in values_
  };
  void put_in_order();
  void drop_overwritten(std::vector<change>& ordered) const;

  std::vector<std::shared_ptr<paged_state>> segments_;
  os::cleared_vector<change> changes_;  // as declared
  // While committing: what is changed, in order and disjoint.
  std::vector<change> ordered_;
  std::vector<new_value> values_;
  std::vector<changed_page> pages_;
  std::size_t prepared_ = 0;  // of these pages
};

}  // namespace tenure::rvm
