// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The cells of weak references and the entries of finalization queues (tenure/store/weak_cell.hpp) of an open store: which of
// them lead to an object, so that they are cleared when it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <tenure/store/finalization_queue.hpp>
#include <tenure/store/weak.hpp>

#include "objects/database_set.hpp"
#include "objects/weak_cells.hpp"

namespace tenure {

struct store_state;

// Used by the writer, except for target_of().
class weak_references {
 public:
  explicit weak_references(store_state& of) : of_(of) {}

  // The cell for an object, or a new one.
  [[nodiscard]] detail::weak_cell* cell_of(void* target);
  // A new entry, in the database of the queue.
  [[nodiscard]] detail::finalization_entry* watch(detail::finalization_list& queue, void* target);
  // Whoever reads or writes: where a cell leads now.
  [[nodiscard]] void* target_of(const detail::weak_cell& cell) const;

  // In the order of a commit:
  // Before its changes are collected: clears what leads to objects that the transaction has destroyed.
  void clear_destroyed();
  // When it is known which cells it makes persistent, and nothing was written yet: clears those of them that lead to objects
  // that do not become persistent.
  void clear_left_behind(std::span<const heap::address> promoted);
  void committed(std::span<const heap::address> promoted);
  // Instead of that: what was cleared in transient cells is put back.
  void commit_failed() noexcept;
  void aborted() noexcept { aborted(0); }
  // An inner transaction was aborted, before which the open one had made so many cells.
  void aborted(std::size_t made_before) noexcept;
  [[nodiscard]] std::size_t made() const noexcept { return made_.size(); }
  // Nothing weak leads to what the open transaction destroys.
  void expect_none_destroyed() { expects_none_ = true; }
  void ended() noexcept { expects_none_ = false; }

  // Whether any may lead to the object that starts there.
  [[nodiscard]] bool leads_to(heap::address object) { return has_cells() && index().contains(~object); }
  // Whether an object of the open store is there, or a part of one, that the open transaction has not destroyed.
  [[nodiscard]] bool is_there(const void* object) const { return static_cast<bool>(find(object).object); }

  using predicate = std::function<bool(const void*)>;
  // Clears transient cells of which `is_kept` does not keep the object. Returns how many were cleared.
  std::uint64_t clear_transient(const predicate& is_kept);
  // Forgets the cells that it does not keep.
  void forget_transient(const predicate& is_kept);
  // The same of a collection of transient objects alone: clears, and forgets.
  void take_young(const predicate& is_kept);
  // Whether this process has made any. Any thread.
  [[nodiscard]] bool has_made_any() const { return has_made_any_; }

 private:
  struct located {
    database_state* in;
    heap::found_object object;
  };
  // The object of the open store at the address, if it was not destroyed. It may hold for more than objects that make() makes.
  [[nodiscard]] located find(const void* at) const;
  located require_target(void* target) const;
  [[nodiscard]] bool persists_now(const void* object) const;

  // What leads to an object, by its hidden start; the cells are hidden, too, so that none is a root. Some may be gone.
  using cells_by_target = std::unordered_multimap<std::uint64_t, std::uint64_t>;
  cells_by_target& index();
  [[nodiscard]] bool has_cells();
  void note_made(heap::address target, const void* cell);
  void forget_made(const heap::found_cell& cell);
  void forget(std::uint64_t target, std::uint64_t cell) noexcept;
  [[nodiscard]] bool is_in_its_list(const detail::finalization_entry& entry) const;
  void clear_cells_of(const database_state& in, heap::address object);
  void clear(database_state& in, const heap::found_cell& cell);
  [[nodiscard]] heap::found_cell cell_at(std::uint64_t hidden) const;

  store_state& of_;
  std::optional<cells_by_target> index_;
  // Hidden cells that were made by this process, and are not persistent; and those of them that the open transaction has made.
  std::unordered_set<std::uint64_t> transient_;
  struct made_cell {
    std::uint64_t cell, target;  // hidden; the target's start
  };
  std::vector<made_cell> made_;
  struct cleared_cell {
    std::uint64_t cell, target;  // hidden
  };
  std::vector<cleared_cell> cleared_;  // transient ones, by the open transaction
  bool expects_none_ = false;
  std::atomic<bool> has_made_any_{false};
  std::optional<bool> has_cells_;  // any that is persistent, or was made
};

}  // namespace tenure
