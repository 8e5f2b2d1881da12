// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The types of a database that is being made. They have the numbers that they had; where the program has a type in another
// layout, the number is that of the new one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "objects/database_state.hpp"
#include "types/evolution.hpp"

namespace tenure::rewriting {

using heap::address;

struct new_type {
  std::uint32_t index = 0;  // in the new database
  const type* of = nullptr;
  std::unique_ptr<pointer_map> words;
  std::unique_ptr<types::value_conversion> how;  // nullptr: values are copied as they are
  std::string refusal;                           // why the store cannot be converted if it has objects of the type
  bool is_left_out = false;                      // there are none, and the new database does not have the type
  heap::cell_kind cell = heap::cell_kind::none;
  std::uint32_t first_slot = 0, slots = 0;  // of vtables
  std::vector<address> vtable_words;  // the new database's value for each of words->words() that is a vtable pointer
};

class new_types {
 public:
  // `home`: of the new database. `plan`: nullptr if no type changes. What cannot be done is added to `problems`.
  new_types(const database_state& from, address home, const types::evolution* plan, std::vector<std::string>& problems);

  // By the number that a type has in the old database.
  [[nodiscard]] const new_type& at(std::uint32_t index) const { return *by_index_[index]; }
  // What becomes of the stored type of a name. nullptr: there is none.
  [[nodiscard]] const new_type* find_stored(const std::string& name) const {
    const auto known = by_stored_name_.find(name);
    return known != by_stored_name_.end() ? by_index_[known->second].get() : nullptr;
  }
  [[nodiscard]] bool has_changes() const { return has_changes_; }
  // The number of a type of the program. A new one gets a number.
  [[nodiscard]] const new_type& of(const type& program);

  // The heap's own objects that describe the types.
  struct description {
    std::uint32_t type;
    std::vector<std::byte> bytes;
    std::vector<std::pair<std::uint64_t, std::size_t>> references;  // offset, and number among the descriptions
  };
  // The type table is the first.
  [[nodiscard]] std::vector<description> describe();

 private:
  new_type& add(std::unique_ptr<new_type> made, std::uint32_t number);
  void add_nested(const type& in);
  void choose_vtables(new_type& of) const;
  [[nodiscard]] std::uint32_t number_of(const char* internal) const;

  const database_state& from_;
  const address home_;
  std::vector<std::unique_ptr<new_type>> by_index_;  // nullptr: the number has no type
  std::unordered_map<std::string, std::uint32_t> by_name_, by_stored_name_;
  std::uint32_t next_slot_ = 0;
  bool has_changes_ = false;
};

}  // namespace tenure::rewriting
