// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Marks the objects to which roots lead, in a store in which nobody works: nothing is transient, and no pointer outside of
// the store counts. What is not marked is garbage. It may refer to anything, also to what is gone [heap.garbage.opaque].
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "objects/database_set.hpp"
#include "objects/object_walk.hpp"

namespace tenure::heap {

class marker {
 public:
  // Called now and then with the number of objects marked so far.
  using progress = std::function<void(std::uint64_t)>;

  explicit marker(const database_set& store);
  // Throws errc::damaged if a root, or an object that is reached, refers to where no object is.
  void run(const progress& on_progress);

  // Of an object that starts there.
  [[nodiscard]] bool is_marked(const database_state& in, address object) const;
  [[nodiscard]] std::uint64_t marked() const { return marked_; }

 private:
  // A bit for each granule of the blocks that are in use, by database.
  [[nodiscard]] std::vector<start_bits>& marks_of(const database_state& in);
  void mark_roots(const database_state& of);
  void follow(address object);
  void mark(const sound_object& what);
  [[noreturn]] void refuse(address from, std::uint64_t offset, stored_address to) const;

  const database_set& store_;
  std::vector<std::pair<const database_state*, std::vector<start_bits>>> marks_;
  std::vector<address>
      pending_;  // marked, and not followed yet: depth first, so that a chain of any length needs little
  std::uint64_t marked_ = 0;
};

}  // namespace tenure::heap
