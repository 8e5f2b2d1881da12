// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Moves objects out of mostly empty blocks, in a store that is open [PM3 §4, heap.evacuation]. It makes each of them once more
// elsewhere, rewrites the references to it, and destroys the old one, in transactions like those of the program: a crash leaves
// what was there before one of them, or after it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include <tenure/store/collection.hpp>

#include "collection/moved_objects.hpp"
#include "collection/sparse_blocks.hpp"
#include "store/pinned_types.hpp"
#include "store/quarantined_objects.hpp"

namespace tenure {

struct store_state;

// Used by the collector's thread, and by commits where a comment says so.
class evacuator {
 public:
  evacuator(store_state& of, const collection_options& how, quarantined_objects& quarantined);

  // Throws errc::bad_option.
  static void require_right(const evacuation& how);

  // While nobody commits.
  void choose() { sparse_.choose(how_.evacuation.sparse_percent, how_.evacuation.most_bytes); }
  [[nodiscard]] std::size_t blocks() const { return sparse_.size(); }
  [[nodiscard]] std::size_t moved_from() const { return next_; }  // blocks
  // Looks at the references of so many bytes of objects, while nobody commits. Returns whether there are more.
  [[nodiscard]] bool look_at_some(std::uint64_t bytes);
  // Moves some. Returns whether there may be more. `is_broken`: whether something was written that no commit has told.
  [[nodiscard]] bool move_some(const std::function<bool()>& is_broken, collect_report& report);
  // Nothing else is moved from the blocks of which move_some() has moved objects. While nobody commits: commits note references to
  // them.
  void leave_moved(collect_report& report);

  // By the writer, while nobody looks or moves.
  void note_commit(const rvm::transaction& tx, std::span<const rvm::memory_range> changes);
  void note_abort(const rvm::transaction& tx, std::span<const rvm::memory_range> changes);

 private:
  void look_again(const rvm::transaction& tx);
  void pin_what_the_program_has();
  [[nodiscard]] bool may_move(std::size_t database, const heap::known_type& type, heap::address object) const;
  void plan(std::uint64_t bytes, collect_report& report);
  void rewrite_references();
  void destroy_old();
  void abort();

  store_state& of_;
  const collection_options& how_;
  quarantined_objects& quarantined_;
  pinning_types pinning_;
  heap::sparse_blocks sparse_;
  std::size_t next_ = 0;   // of the blocks
  std::uint64_t at_once_;  // bytes
  bool has_moved_ = false;
  std::size_t looked_at_ = 0;           // databases
  std::uint64_t block_ = 0, part_ = 0;  // of the one that is being looked at
  std::size_t planned_ = 0;             // blocks, from next_ on
  heap::moved_objects moved_;
};

}  // namespace tenure
