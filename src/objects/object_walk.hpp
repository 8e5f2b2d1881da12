// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects and how they are reached: for messages, verification and tools. Stores may be damaged.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "objects/address_lists.hpp"
#include "objects/database_set.hpp"
#include "objects/references.hpp"

namespace tenure::heap {

// The object in which an address lies, with what its header says, if that makes sense: the type is known, and all bytes
// of the object lie in the database. For stores that may be damaged.
struct sound_object {
  const database_state* in = nullptr;  // nullptr: there is none
  address at = 0;
  std::uint64_t size = 0;  // bytes
  const known_type* type = nullptr;
  bool is_persistent = false;
  [[nodiscard]] explicit operator bool() const { return in != nullptr; }
  [[nodiscard]] object_facts facts() const { return {at, type->index, size, at, at + size}; }
  // The number of elements of the type.
  [[nodiscard]] std::uint64_t count() const { return type->of->size == 0 ? 1 : size / type->of->size; }
};
[[nodiscard]] sound_object find_sound(const database_set& store, const void* at);
[[nodiscard]] inline sound_object find_sound(const database_set& store, stored_address at) {
  return find_sound(store, in_memory(at));
}
// The same for the address of a known persistent object.
[[nodiscard]] sound_object sound_at(const database_state& in, address object);

// A place that refers to an object: a root, or a reference in another one, persistent or transient, whether it can be reached or
// not. A word of unknown layout counts if it may be meant.
struct referrer {
  const database_state* in = nullptr;  // that has the place
  address from = 0;                    // 0: a root
  std::uint64_t offset = 0;            // of the reference in the object
  std::string root;
};
// Called by the writer, or while nobody writes.
[[nodiscard]] std::vector<referrer> find_referrers(const database_set& store, address object);

// Searches breadth first from all roots, through persistent and transient objects, and remembers how each was reached.
class reachable_objects {
 public:
  // Visits at most this many objects.
  explicit reachable_objects(const database_set& store, std::size_t most = ~std::size_t{0})
      : store_(store), most_(most) {}

  // Searches until `wanted` or everything was found.
  void search(address wanted = 0);
  // The same, from one object instead of the roots.
  void search_from(address object);
  [[nodiscard]] bool contains(address object) const { return seen_.contains(object); }
  // Whether it is meant. A word of unknown layout that refers to an object may also mean the end of the one before, which may
  // be garbage, and refer to anything then [heap.garbage.opaque].
  [[nodiscard]] bool is_meant(address object) const { return contains(object) && !perhaps_.contains(object); }
  [[nodiscard]] std::size_t count() const { return order_.size(); }
  [[nodiscard]] const address_list<address>& in_order() const { return order_; }
  // "root by-name -> tenure::map<...>.root_ -> ..."; empty if the object was not reached.
  [[nodiscard]] std::string path(address object) const;

 private:
  struct step {
    address from;  // 0: a root
    std::uint64_t offset;
    std::string root;
  };
  void add(address object, step how);
  void follow_all(address wanted);
  void follow_from(std::size_t first, address wanted);

  const database_set& store_;
  const std::size_t most_;
  std::unordered_map<address, step, std::hash<address>, std::equal_to<>,
                     os::clearing_allocator<std::pair<const address, step>>>
      seen_;
  address_list<address> order_;
  address_list<std::pair<address, step>> ends_;  // objects that words of unknown layout may mean the end of
  address_set perhaps_;                          // reached by these only
};

// How the object can be reached: "root by-name -> map<...>.root_ -> ...". Empty if it cannot be reached, or if a search
// with bounded effort does not find it: among 10^7 objects the full search took 9 s and 1.8 GiB.
[[nodiscard]] std::string find_path(const database_set& store, address object);

}  // namespace tenure::heap
