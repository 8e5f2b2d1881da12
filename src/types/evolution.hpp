// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How values of a type as it is stored become values of the type as the program has it: planned field by field, from the two
// descriptions and from what evolve<T> declares. Nothing is read or written here [heap.rewrite.plan].
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenure/types/evolve.hpp>

#include "types/numbers.hpp"

namespace tenure::types {

// Of one value of the type. Offsets are from its start.
struct value_conversion {
  const type* from = nullptr;
  const type* to = nullptr;

  // Of the old value: what an optional has, or whether a slot of a container is in use.
  struct condition : field_guard {
    enum class test : std::uint8_t { equals, differs, exceeds } test = test::equals;  // from `value`
    [[nodiscard]] bool holds(const std::byte* old) const;
  };
  // All must hold for what follows to be done.
  struct guarded {
    std::uint32_t first_condition = 0, conditions = 0;
  };
  // First the bytes that new values have before anything is copied to them.
  struct image {
    std::vector<std::byte> bytes;
    std::vector<std::uint64_t> own_addresses;  // words of it that are addresses in it: they are relative to its start
    const type* constructed = nullptr;  // the constructor allocates memory, so it must run for each value: no bytes
  };
  struct filled : guarded {
    std::uint64_t to;
    std::size_t image;
  };
  std::vector<image> images;
  std::vector<filled> fills;
  struct copied_bytes : guarded {
    std::uint64_t from, to, length;
  };
  struct converted_number : guarded {
    std::uint64_t from, to;
    number_type was, is;
    std::string path;
  };
  // What must be zero, because the new array is shorter.
  struct left_out_bytes : guarded {
    std::uint64_t from, length;
    std::string path;
  };
  std::vector<copied_bytes> copies;
  std::vector<converted_number> numbers;
  std::vector<left_out_bytes> left_out;
  // A node of one of the library's trees, which has no room for all entries any more: the tree is built anew.
  bool has_fewer_slots = false;
  std::vector<condition> conditions;
  [[nodiscard]] bool holds(const guarded& what, const std::byte* old) const {
    for (std::uint32_t n = 0; n < what.conditions; ++n)
      if (!conditions[what.first_condition + n].holds(old)) return false;
    return true;
  }

  // Where the parts of an old value are in the new one: for pointers to them. Inner ones come first.
  struct kept_part : guarded {
    std::uint64_t from, size, to;
    std::string type_name;
    bool is_copied;  // every byte of it
    bool is_class;
  };
  std::vector<kept_part> parts;
  // Bases of the value, and of nested ones: where they start.
  struct kept_base : guarded {
    std::uint64_t from;         // the first of its members
    std::uint64_t from_vtable;  // the vtable pointer before it, where it starts if that is its own
    std::uint64_t to;
    std::string name;
  };
  std::vector<kept_base> bases;
  // Vtable pointers, if there are as many as before.
  std::map<std::uint64_t, std::uint64_t> vtables;

  // Functions of the value's class, and of classes in it.
  struct called : guarded {
    const detail::version_changes* function;
    const type* was;
    std::uint64_t from, to;
  };
  std::vector<called> functions;

  // Where a pointer leads that led to the offset of the old value. `pointee`: its declared type; empty if unknown.
  [[nodiscard]] std::optional<std::uint64_t> moved_offset(const std::byte* old, std::uint64_t offset,
                                                          std::string_view pointee) const;

 private:
  [[nodiscard]] bool is_no_longer(const kept_part& part, std::string_view pointee, std::uint64_t offset) const;
};

// What becomes of the types of a store.
class evolution {
 public:
  // What is known of a type of a program that does not run here: it has no operations.
  struct told {
    bool has_default = false;
    type_changes changes = {};
  };
  // `program`: all types that the program has registered. `others`: of a program of which only the schema is known.
  explicit evolution(const std::vector<const type*>& program, std::map<std::string, told> others = {});

  // A class may have an old name of another one. Stored objects of that name are of the class that has it now, unless they cannot
  // be converted to it, can be to the other one, and the store has none under that one's new name.
  void look_at(const std::vector<const type*>& stored);

  // What evolve<T> has declared. nullptr: nothing.
  [[nodiscard]] const type_changes* changes_of(const type& program) const;
  // Whether it has a default constructor, which tells the values of new fields.
  [[nodiscard]] bool has_default(const type& program) const;

  // The program's type of a stored one: of its name, or declared to have had it. nullptr: the program lacks it.
  [[nodiscard]] const type* program_type_of(const type& stored) const;
  [[nodiscard]] const type* program_type_named(std::string_view name) const;
  // The same of a name that a field has in a derived class: "base::member".
  [[nodiscard]] std::string renamed_member(std::string_view name) const;
  // Whether values must be converted: the types, or classes in them, of which the version may be all that differs.
  [[nodiscard]] static bool differ(const type& stored, const type& program);
  // Whether the program has a class of this name in another layout than it has as a base of a stored class.
  [[nodiscard]] bool has_changed_as_base(const type& stored, const std::string& base) const;
  // The name that a stored name has in the program, if classes in it were renamed.
  [[nodiscard]] std::string renamed(std::string_view stored) const;

  // Where two names differ by one class only, which the program lacks under the old name: what would say that it is the same one. Else "".
  [[nodiscard]] std::string renaming_hint(std::string_view stored, std::string_view program) const;

  // Plans the conversion. What cannot be done is added to `problems`, one sentence each.
  [[nodiscard]] value_conversion plan(const type& stored, const type& program,
                                      std::vector<std::string>& problems) const;
  // What else cannot be done, of all types of a store.
  void find_other_problems(const std::vector<const type*>& stored, std::vector<std::string>& problems) const;
  // Types that the program lacks, with classes in them that have changed, and why objects of them cannot be converted. In values of
  // other types they are.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> unknown_with_changes(
      const std::vector<const type*>& stored) const;

 private:
  [[nodiscard]] std::string changed_part_of(const type& stored,
                                            const std::function<bool(std::string_view)>& has_changed) const;
  [[nodiscard]] std::function<std::pair<const type*, const type*>(std::string_view)> changed_types(
      const std::vector<const type*>& stored) const;

  const std::map<std::string, told> others_;
  std::map<std::string, const type*, std::less<>>
      by_name_;  // without those of which stored objects are of another class
  std::map<std::string, std::string, std::less<>> new_names_;  // of classes that were renamed
};

}  // namespace tenure::types
