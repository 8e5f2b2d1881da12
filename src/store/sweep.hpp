// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Sweeping: what is not marked is destroyed, some objects a transaction. Between two of them garbage may refer to objects that
// are gone, which is nobody's business [heap.garbage.opaque].
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tenure/store/collection.hpp>

#include "store/store_state.hpp"

namespace tenure {

// One thread at a time.
class sweep {
 public:
  using is_kept = std::function<bool(const database_state&, heap::address)>;

  sweep(store_state& of, is_kept kept) : of_(of), is_kept_(std::move(kept)) {}

  // Counts the block's objects, and gives those that are garbage to `garbage`. Throws errc::damaged if what the block has in use
  // is not what it says: it is counted down by what is destroyed there, and if it is wrong, the block seems to be empty when it is
  // not, and what is left in it is lost. Called by the writer, or while nobody writes.
  void look_at(const database_state& in, std::uint64_t block, std::vector<heap::address>& garbage);
  // Destroys what is garbage in some blocks from `block` on, until there are `at_once` objects, in one transaction if there are
  // any, and moves `block` behind them. Returns what to wait for.
  std::optional<ticket> destroy_some(database_state& in, std::uint64_t& block, std::uint64_t at_once);
  // Destroys these, in several transactions if the log has no room for all of them. Returns what to wait for.
  ticket destroy(database_state& in, std::span<const heap::address> gone);

  // What was looked at and destroyed so far.
  [[nodiscard]] collect_report& report() { return report_; }
  // The types of the garbage are listed now.
  void finish_report();

 private:
  ticket destroy_at_once(database_state& in, std::span<const heap::address> gone);

  store_state& of_;
  const is_kept is_kept_;
  collect_report report_;
  std::map<std::string, type_count> types_;
  std::size_t at_once_ = ~std::size_t{0};
};

}  // namespace tenure
