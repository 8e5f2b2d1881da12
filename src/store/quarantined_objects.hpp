// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Where collections have taken objects, and nothing new is made until a later collection has found that nothing leads there, or
// the store is opened again [heap.collection.quarantine]. So whoever has hidden a pointer from a collection still reads what
// the object was, or a pattern, and not another object, and the next collection names the object.
//
// Objects are named by their blocks and bits: lists of addresses would keep them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <tenure/store/collection.hpp>

#include "objects/database_set.hpp"

namespace tenure {

// One thread at a time.
class quarantined_objects {
 public:
  // What quarantine::check fills objects with. No pointer: who follows it gets a signal on every machine with less than 64 bits of
  // address.
  static constexpr int pattern = 0xd9;

  explicit quarantined_objects(const std::optional<database_set>& of) : of_(of) {}

  // Of what is held from now on, this transaction or an earlier one has dropped the persistent objects.
  void begin_cycle(std::uint64_t last_transaction) { last_transaction_ = last_transaction; }
  // Persistent objects that the open transaction is about to destroy. `check`: fills them with a pattern.
  void hold(database_state& in, std::span<const heap::address> gone, quarantine how);
  // It has committed, or was aborted: then they are what they were, and the program may destroy them itself.
  void committed() noexcept { held_now_.clear(); }
  void aborted() noexcept;
  // Transient objects of the block that are about to go: those that are not in `kept`. Called in with_lock() of the births.
  void hold_transient(database_state& in, const heap::transient_block& block, const heap::start_bits& kept);

  // Whether somebody may still use what lies in [begin, end) of a database.
  using use_of = std::function<bool(const database_state&, heap::address begin, heap::address end)>;
  // Gives back what nobody uses, and says in `report` what is used. Called before anything else is held.
  void confirm(const use_of& is_used, collect_report& report);
  // If nobody gets that report, because the cycle has failed, the next one tells it once more.
  void end_cycle(bool is_reported) noexcept;
  // How much there is. Any thread.
  [[nodiscard]] std::uint64_t objects() const { return objects_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  using time = std::chrono::system_clock::time_point;
  struct held_block {
    std::uint64_t blocks = 1;  // more: of one large object
    time taken = {};           // the last one
    std::uint64_t transaction = 0;
    heap::page_words pages = {};  // as they were
    heap::start_bits filled, told;
  };
  using place = std::pair<const database_state*, std::uint64_t>;
  void hold_block(database_state& in, std::uint64_t block, std::uint64_t blocks, const heap::page_words& pages,
                  const heap::start_bits& objects);
  // All but these. With the births locked.
  void release(std::map<place, held_block>::iterator which, const heap::start_bits& but);
  static heap::object_facts facts_of(const place& where, const held_block& what, std::uint64_t bit);
  heap::start_bits used_in_block(const place& where, held_block& what, const use_of& is_used, collect_report& report);

  const std::optional<database_set>& of_;
  std::uint64_t last_transaction_ = 0;
  std::map<place, held_block> held_;
  std::vector<std::pair<place, std::uint64_t>> told_now_;     // bits, by this cycle
  std::vector<std::pair<place, heap::start_bits>> held_now_;  // by the open transaction
  std::atomic<std::uint64_t> objects_{0}, bytes_{0};
};

}  // namespace tenure
