// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Walks through the references of objects by their stored descriptions: for messages, verification and tools.
// Stabilization has its own loop.
#pragma once

#include <cstring>
#include <functional>
#include <unordered_map>
#include <vector>

#include "objects/database_set.hpp"

namespace tenure::heap {

struct reference_field {
  std::uint64_t offset;  // in the object
  const void* to;
  bool is_ambiguous;  // of unknown layout, or possibly stale
};

// Calls f(reference_field) for each reference of the object that is not null, in the order of offsets.
template <class F>
void for_each_reference(const known_type& of, address object, F&& f) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(object);
  const std::uint64_t size = size_of_object(object);
  if (!of.words->has_pointers() || of.of->size == 0) return;
  const auto word_at = [&](std::uint64_t offset) {
    const void* to;
    std::memcpy(&to, bytes + offset, sizeof to);
    return to;
  };
  for (std::uint64_t element = 0; element + of.of->size <= size; element += of.of->size)
    for (const pointer_map::word& w : of.words->words()) {
      const std::uint64_t at = element + w.offset;
      if (w.kind == field_kind::reference) {
        if (w.guards != 0 && !of.words->holds(w, bytes + element)) continue;
        if (const void* const to = word_at(at)) f(reference_field{at, to, of.of->tolerates_stale});
      } else if (w.kind == field_kind::conservative) {
        for (std::uint64_t each = at; each + sizeof(void*) <= at + w.length; each += sizeof(void*))
          if (const void* const to = word_at(each)) f(reference_field{each, to, true});
      }
    }
}

// The object in which an address lies, with what its header says, if that makes sense: the type is known, and all bytes
// of the object lie in the database. For stores that may be damaged.
struct sound_object {
  const database_state* in = nullptr;  // nullptr: there is none
  address at = 0;
  std::uint64_t size = 0;  // bytes
  const known_type* type = nullptr;
  bool is_persistent = false;
  [[nodiscard]] explicit operator bool() const { return in != nullptr; }
  // The number of elements of the type.
  [[nodiscard]] std::uint64_t count() const { return type->of->size == 0 ? 1 : size / type->of->size; }
};
[[nodiscard]] sound_object find_sound(const database_set& store, const void* at);
// The same for the address of a known persistent object.
[[nodiscard]] sound_object sound_at(const database_state& in, address object);

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
  [[nodiscard]] std::size_t count() const { return order_.size(); }
  [[nodiscard]] const std::vector<address>& in_order() const { return order_; }
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

  const database_set& store_;
  const std::size_t most_;
  std::unordered_map<address, step> seen_;
  std::vector<address> order_;
};

}  // namespace tenure::heap
