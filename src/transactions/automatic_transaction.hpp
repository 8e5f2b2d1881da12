// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A transaction that finds its changes in automatically tracked regions by itself. It has the automatic right until its
// values are captured or given up.
#pragma once

#include "transactions/transaction_state.hpp"

namespace tenure::rvm {

class automatic_transaction final : public transaction_state {
 public:
  using transaction_state::transaction_state;

  std::span<const memory_range> collect_changes() override;
  void for_each_written_page(const callback<void(const memory_range&)>& f) const override;
  void read_committed(const std::byte* from, std::size_t length, std::byte* into) const override;
  void discard_changes() noexcept override;
  [[nodiscard]] std::span<const memory_range> changes() const override { return changes_; }
  [[nodiscard]] bool uses(const region_state& in) const override;

 private:
  void set_tracked_range(region_state& in, std::byte* from, std::size_t length) override;
  void require_pages_may_change() const override;
  [[nodiscard]] bool declares_everything() const override { return false; }
  void find_what_to_log() override;
  void forget_found() noexcept override { forget(); }
  ticket log(commit_mode mode) override;
  void logging_failed() noexcept override;
  void logged(ticket at, commit_mode mode) override;
  void restore() noexcept override;
  void begin_tracked_level() override;
  void restore_tracked_level() override;
  void end_tracked_level() noexcept override { levels_.pop_back(); }
  [[nodiscard]] std::uint64_t declared_ranges(std::uint64_t merged) const override { return merged; }
  [[nodiscard]] std::uint64_t declared_bytes(std::uint64_t merged) const override { return merged; }
  void reset_kind() noexcept override;

  // What of tracked regions differed from the committed image when an inner transaction began, and how.
  struct changed_bytes {
    os::cleared_vector<memory_range> ranges;
    os::cleared_bytes bytes;  // one after the other
  };
  // Finds what differs now. The layer above has not collected changes.
  [[nodiscard]] os::cleared_vector<memory_range> find_changes() const;

  // Finds what has changed, and declares it.
  void collect();
  void forget() noexcept;

  bool captured_ = false;
  bool collected_ = false;                    // the changes were found; commit does not look for them again
  os::cleared_vector<memory_range> changes_;  // the changes that commit has found
  std::vector<changed_bytes> levels_;         // of inner transactions
};

}  // namespace tenure::rvm
