// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An open transaction: what it has declared, and the old values it would put back.
#pragma once

#include <string>
#include <vector>

#include <tenure/rvm.hpp>

#include "rvm/log_writer.hpp"
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

  static constexpr std::size_t not_prepared = ~std::size_t{0};

  memory_state* owner = nullptr;
  std::uint64_t id = 0;
  restore_mode mode = restore_mode::restore;
  std::string label;
  // Declared ranges. The first `merged` of them are sorted, disjoint and not adjacent; the others are as they came.
  std::vector<declared> ranges;
  std::size_t merged = 0;
  std::vector<old_value> undo;  // in the order of declaration: put back last to first [rvm.transaction.undo-order]
  std::vector<std::byte> saved;
  std::vector<page_ref> touched;       // one page reference each
  std::vector<region_state*> regions;  // changed under the owner's open_mutex
  region_state* last_region = nullptr;
  std::vector<participant*> participants;
  std::size_t prepared = 0;  // how many of them prepare() has run for
  // What the undo lists held before prepare(), until that is settled.
  std::size_t undo_before_prepare = not_prepared, saved_before_prepare = not_prepared;
  std::vector<new_value> values;  // while committing
  bool holds_references = true;   // until the values are captured
  // For query, from any thread.
  std::atomic<std::uint64_t> ranges_declared{0}, bytes_declared{0};
  // Place in the owner's list of open transactions.
  transaction_state* next = nullptr;
  transaction_state* previous = nullptr;

  void set_range(std::byte* from, std::size_t length);
  void put_back_old_values() noexcept;
  void drop_references() noexcept;
  void reset();
  static void let_go(transaction& handle) noexcept;

  // commit_source
  commit_image prepare(bool lazy) override;
  void undo_prepare() noexcept override;
  [[nodiscard]] std::span<const page_ref> pages() const override { return touched; }
  void captured() noexcept override;

 private:
  [[nodiscard]] region_state& region_of(const std::byte* from, std::size_t length);
  [[nodiscard]] bool is_declared(const std::byte* from, std::size_t length) const;
  void merge();
  void references_gone() noexcept;
};

}  // namespace tenure::rvm
