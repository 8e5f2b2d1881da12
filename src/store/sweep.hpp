// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Sweeping: what is not marked is destroyed, some objects a transaction. Between two of them garbage may refer to objects that
// are gone, which is nobody's business [heap.garbage.opaque].
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <tenure/store/collection.hpp>

#include "objects/address_lists.hpp"
#include "store/quarantined_objects.hpp"
#include "store/store_state.hpp"

namespace tenure {

// One thread at a time.
class sweep {
 public:
  // The granules of a block where objects start that are not garbage.
  using kept_objects = std::function<heap::start_bits(const database_state&, std::uint64_t block)>;

  sweep(store_state& of, kept_objects kept) : of_(of), kept_(std::move(kept)) {}

  // What is destroyed goes there.
  void quarantine_in(quarantined_objects& where, quarantine how) {
    quarantined_ = &where;
    quarantine_ = how;
  }

  // Counts the block's objects, and adds those that are garbage to `garbage`. Throws errc::damaged if what the block has in use
  // is not what it says: it is counted down by what is destroyed there, and if it is wrong, the block seems to be empty when it is
  // not, and what is left in it is lost. Called while nobody commits.
  void look_at(const database_state& in, std::uint64_t block, heap::address_list<heap::address>& garbage);
  // Only adds them.
  void find_garbage(const database_state& in, std::uint64_t block, heap::address_list<heap::address>& garbage) const;
  // Destroys these, in several transactions if the log has no room for all of them. Returns what to wait for.
  ticket destroy(database_state& in, std::span<const heap::address> gone);

  // How many seconds the last transaction of destroy() took, from its begin.
  [[nodiscard]] double last_transaction() const { return last_transaction_; }
  // And how many it had waited before, for those of others.
  [[nodiscard]] double last_wait() const { return last_wait_; }
  // What was looked at and destroyed so far.
  [[nodiscard]] collect_report& report() { return report_; }
  // The types of the garbage are listed now.
  void finish_report();

 private:
  using counts_by_type = std::map<std::string, type_count>;
  static void find_garbage(const database_state& in, std::uint64_t block, const heap::start_bits& kept,
                           heap::address_list<heap::address>& garbage);
  static void count(counts_by_type& in, const heap::known_type& of, std::uint64_t objects, std::uint64_t bytes);
  void count_garbage(const heap::known_type& of, std::uint64_t objects, std::uint64_t bytes);
  void count_kept(const heap::known_type& of, std::uint64_t objects, std::uint64_t bytes);
  void look_at_typed(const database_state& in, std::uint64_t block, const heap::start_bits& kept);
  ticket destroy_at_once(database_state& in, std::span<const heap::address> gone);
  void abort();

  store_state& of_;
  const kept_objects kept_;
  quarantined_objects* quarantined_ = nullptr;
  quarantine quarantine_ = quarantine::none;
  collect_report report_;
  counts_by_type garbage_types_, kept_types_;
  double last_transaction_ = 0, last_wait_ = 0;
  std::size_t at_once_ = ~std::size_t{0};
};

}  // namespace tenure
