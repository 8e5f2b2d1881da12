// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The types of a database, by number, and the types of the program that are the same.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <tenure/type.hpp>

#include "cache/stored_database.hpp"

namespace tenure::cache {

// A stored type with the program's type that describes its objects in the cache.
struct bound_type {
  std::uint32_t index;
  const type* program;
  pointer_map words;
  std::vector<std::uint64_t>
      stored_vtables;        // for each of words.words() that is a vtable pointer: what is stored there
  bool has_checked = false;  // references that are checked, swizzled and unswizzled
  std::vector<bool> flags;   // for each of words.guards(): whether it is a bool, as that of an optional
  // The classes of refs that were found to lead to the begin of its objects rightly.
  mutable std::vector<const std::type_info*> reached_by;

  [[nodiscard]] bool was_reached_by(const std::type_info& of) const {
    for (const std::type_info* const known : reached_by)
      if (known == &of) return true;
    return false;
  }
};

class stored_types {
 public:
  explicit stored_types(stored_database& of) : of_(of) {}

  // Reads the stored descriptions, once.
  void read();
  // Throws errc::schema_mismatch if a type that the program has registered is stored with another layout.
  void require_registered() const;

  // The type of an object. Of several types of the program with its name, `declared` is taken, which may be nullptr: a
  // program may have a class with plain pointers and one with refs under one name.
  // Throws errc::damaged if there is no such type; errc::wrong_type if the program does not have it; errc::bad_type if its
  // layout is not known exactly; errc::schema_mismatch.
  [[nodiscard]] const bound_type& bind(std::uint32_t index, const type* declared);
  // The number of a type of the program. A new type gets one, and so do those that are in it. Throws errc::schema_mismatch,
  // and errc::out_of_memory if there is no room for another type.
  [[nodiscard]] std::uint32_t index_of(const type& program);
  // Of a type that has got a number, and of which no commit has stored a description yet: what a description says. Otherwise
  // nothing.
  struct undescribed {
    const type* program;
    std::uint32_t first_slot, slots;
  };
  [[nodiscard]] std::optional<undescribed> find_undescribed(std::uint32_t index) const;
  void described(std::uint32_t index) { all_[index].program = nullptr; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(all_.size()); }
  [[nodiscard]] std::uint32_t vtable_slots() const { return next_slot_; }  // that were ever given out
  [[nodiscard]] bool knows(const std::string& name) const { return by_name_.contains(name); }
  [[nodiscard]] std::string name_of(std::uint32_t index) const;

 private:
  struct stored {
    std::string name;
    std::uint64_t size = 0, fingerprint = 0;
    std::uint32_t version = 0, first_slot = 0, slots = 0;
    const type* program = nullptr;  // no description is stored
  };
  [[nodiscard]] std::string text(std::uint64_t at, std::uint64_t length, const std::string& what);
  void require_same(const stored& s, const type& program) const;
  [[nodiscard]] const bound_type& find_or_bind(std::uint32_t index, const type* declared);
  [[nodiscard]] const type& program_type(const stored& s, const type* declared) const;
  [[nodiscard]] std::unique_ptr<bound_type> make(std::uint32_t index, const type& program) const;

  stored_database& of_;
  std::vector<stored> all_;  // by index; without a name: none
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::uint32_t next_slot_ = 0;
  std::map<std::pair<std::uint32_t, const type*>, std::unique_ptr<bound_type>> bound_;
  // What bind() has found last, by the lowest bits of the number.
  struct known_type {
    std::uint32_t index = ~std::uint32_t{0};
    const type* declared = nullptr;
    const bound_type* bound = nullptr;
  };
  std::array<known_type, 16> known_{};
};

}  // namespace tenure::cache
