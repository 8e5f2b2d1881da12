// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects that move while the program runs: where they were and where they are, and the references to them, which follow.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "objects/address_lists.hpp"
#include "objects/database_set.hpp"

namespace tenure::heap {

// Used by the writer. Leaves no addresses behind [heap.collection.addresses].
class moved_objects {
 public:
  struct move {
    database_state* in;
    const known_type* type;
    address from;
    std::uint64_t size;
    address to = 0;
  };

  // An object that is to move, of a block of small objects.
  void add(database_state& in, const known_type& type, address object, std::uint64_t size);
  // Makes all of them once more, in the order in which they were added, with the same bytes.
  void copy();
  void clear();

  [[nodiscard]] const address_list<move>& all() const { return moves_; }
  [[nodiscard]] bool contains(address object) const { return find(object) != nullptr; }

  // Rewrites the references of elements that have a byte in [from, to) of an object. A stored one is announced.
  enum class bytes_of { copy, new_object, stored_object };
  void rewrite(const known_type& type, address object, std::uint64_t size, std::uint64_t from, std::uint64_t to,
               bytes_of what);
  // The same for what persistent objects have in a range of a page; but not in those that have moved.
  void rewrite_stored(const database_state& in, address from, address to);
  // All references but those of copies lead again to where the objects were.
  void put_back() noexcept;

 private:
  // In which the address lies. nullptr: in none.
  [[nodiscard]] const move* find(address at) const;

  struct rewritten {
    address place, to;  // it led there
  };

  address_list<move> moves_;
  address_list<rewritten> rewritten_;  // but those of copies
  // Their numbers, by the number of the block in which they begin, and in the order of addresses there.
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_block_;
};

}  // namespace tenure::heap
