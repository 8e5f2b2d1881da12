// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Stabilization by copying [PM3 §5.1, figures 2 and 3; heap.copying]: before a commit makes objects persistent, those that no
// ambiguous reference leads to are made once more, breadth first, so that what is reached together lies together. The references
// to them follow. What is copied and what stays becomes persistent by the stabilizer then, as always.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tenure/rvm.hpp>

#include "collection/moved_objects.hpp"

namespace tenure {

struct store_state;

// Of one attempt to commit. By the writer.
class copying_stabilizer {
 public:
  explicit copying_stabilizer(store_state& of);

  // After tx.collect_changes(): finds what is to be copied. Returns whether there is anything.
  [[nodiscard]] bool find(const rvm::transaction& tx);
  // After tx.discard_changes(): copies it. What was copied counts as retired. Returns false if there is no room for all copies: then
  // all objects stay where they are.
  [[nodiscard]] bool copy();
  // The stabilizer has seen that no reference leads to what was copied. From here on it is transient garbage, of which the next
  // collection takes care; without quarantine, the commit.
  void traced();
  // The commit has failed; the transaction goes on with the old ones. The copies count as retired. After tx.discard_changes().
  void failed() noexcept;
  // The commit is captured.
  void committed();

 private:
  struct visited {
    database_state* in;
    heap::address object;
  };
  // Nothing, if it is gone. With the births locked.
  [[nodiscard]] static heap::found_object find_again(const visited& which);
  void visit(database_state& from, const heap::known_type& type, std::uint64_t to, bool may_be_end);
  void visit_object(heap::address at, bool pins);
  void visit_all(const rvm::transaction& tx);
  void pin(heap::address at);
  void pin_what_the_program_has();
  void choose();
  void keep_old_ones() noexcept;
  void retire_copies() noexcept;

  store_state& of_;
  heap::address_list<rvm::memory_range> pages_;  // that the transaction may have written to
  heap::address_list<visited> order_;            // breadth first
  heap::address_set seen_, pinned_;
  std::unordered_set<std::uint64_t> blocks_;  // with what is in order_: numbers, in all of memory
  heap::moved_objects moved_;
};

}  // namespace tenure
