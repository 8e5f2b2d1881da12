// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Collects transient objects alone, at once: the young generation [heap.collection.young]. Persistent objects are the old one, and
// their transient fields are the only places that may refer to young objects, besides handles.
#pragma once

#include <unordered_map>
#include <utility>

#include "objects/address_lists.hpp"
#include "objects/database_set.hpp"

namespace tenure::heap {

// By the writer, between transactions, with the access lock: nobody reads or writes.
class young_objects {
 public:
  explicit young_objects(const database_set& store) : store_(store) {}

  // Finds out what must stay. Once. Returns false if the kernel does not say what is needed.
  [[nodiscard]] bool mark();
  [[nodiscard]] bool keeps(const void* object) const;
  // Takes back the others.
  birth::counts sweep();

 private:
  void mark(address to, bool may_be_end);
  void mark_object(address at);
  void follow();
  [[nodiscard]] start_bits marked_in(const database_state& in, std::uint64_t block) const;

  const database_set& store_;
  std::unordered_map<address, start_bits> marks_;     // by the first block's address
  std::pair<address, start_bits*> last_{0, nullptr};  // of marks_
  struct grey_object {
    const database_state* in;
    found_object object;
  };
  address_list<grey_object> grey_;
};

}  // namespace tenure::heap
