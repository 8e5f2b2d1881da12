// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An object fault: brings an object from its page into the cache, with those to which it has plain pointers, and theirs.
//
// [cache.fault.whole] Either all of these objects are in the table afterwards, or an error leaves it as it was.
// [cache.fault.discovery] A ref that is found in an object becomes an address only if its target is in memory, and is
// certainly of the declared type. So looking at refs never reads a page.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "cache/databases.hpp"
#include "cache/object_table.hpp"

namespace tenure::cache {

class loader {
 public:
  loader(const open_databases& databases, object_table& objects) : databases_(databases), objects_(objects) {}

  struct reached {
    cached_object* object;
    std::uint64_t offset;  // of the address in the object
    bool was_loaded;
  };
  // The object at a home address, loaded if it is not in memory. `declared`: what is expected there, for the choice between
  // types of one name. Throws errc::damaged if there is no object, and the errors of stored_types::bind.
  // `may_unite`: called with the objects in memory whose groups what is loaded would unite; if it says no, nothing is loaded, and
  // there is no object in the result.
  template <class F>
  [[nodiscard]] reached reach(std::uint64_t home, const type* declared, F&& may_unite) {
    if (cached_object* const known = objects_.find(home)) return {known, 0, false};
    const empty_load all(load_);
    const reached result = begin(load_, home, declared);
    if (load_.made.empty()) return result;
    if (!may_unite(in_memory(load_))) return {nullptr, 0, false};
    finish(load_);
    return result;
  }
  [[nodiscard]] reached reach(std::uint64_t home, const type* declared) {
    return reach(home, declared, [](const std::vector<cached_object*>&) { return true; });
  }

  [[nodiscard]] std::uint64_t loaded() const { return loaded_; }
  [[nodiscard]] std::uint64_t discovered() const { return discovered_; }

 private:
  // A plain pointer of a new object, and where it leads.
  struct plain_pointer {
    cached_object* target;  // nullptr: to nothing, which some arrays may do
    std::uint64_t offset;
  };
  struct load {
    std::list<cached_object> made;
    address_table<cached_object, 4> by_home;
    std::vector<cached_object*> objects;       // the same
    std::vector<plain_pointer> pointers;       // of one of them after the other, in the order of its words
    std::vector<std::size_t> end_of_pointers;  // of each of them
    std::uint64_t cost = 0;
  };
  // Nothing is loaded before and after.
  struct empty_load {
    load& of;
    explicit empty_load(load& all) : of(all) {}
    ~empty_load() {
      for (const cached_object* const object : of.objects) of.by_home.erase(object->home);
      of.made.clear();
      of.objects.clear();
      of.pointers.clear();
      of.end_of_pointers.clear();
      of.cost = 0;
    }
    empty_load(const empty_load&) = delete;
    empty_load& operator=(const empty_load&) = delete;
  };
  [[nodiscard]] reached begin(load& all, std::uint64_t home, const type* declared);
  [[nodiscard]] static std::vector<cached_object*> in_memory(const load& all);
  void finish(load& all);
  [[nodiscard]] reached locate(load& all, std::uint64_t home, const type* declared, const cached_object* from);
  [[nodiscard]] cached_object* bring(load& all, open_database& in, const stored_database::stored_object& found,
                                     const type* declared);
  static void require_sound_flags(const cached_object& object);
  void follow(load& all, cached_object& object);
  void convert(cached_object& object, const plain_pointer* next);

  const open_databases& databases_;
  object_table& objects_;
  load load_;  // that goes on: kept for its memory
  std::uint64_t loaded_ = 0, discovered_ = 0;
};

}  // namespace tenure::cache
