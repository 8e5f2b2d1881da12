// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The values of stored objects, decoded by their stored descriptions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "objects/object_walk.hpp"

namespace tenure::tools {

// A value, as deep as it goes.
struct shown_value {
  enum class kind {
    none,       // of an optional
    number,     // `text` is how it is written; also true and false
    text,       // `text` is what it says, any bytes
    reference,  // `to`; null if that is 0
    fields,     // `parts`, by name
    list,       // `parts`, unnamed
    note,       // `text` says why there is no value
  };
  kind is = kind::none;
  std::string text = {};
  std::vector<std::pair<std::string, shown_value>> parts = {};
  std::uint64_t left_out = 0;  // list: elements behind those shown; text: bytes
  heap::stored_address to = heap::stored_address::none;
  std::string to_type = {};     // of the object that is there; empty: none is
  std::uint64_t to_count = 1;   // elements of it
  heap::address to_object = 0;  // its start
  std::string to_field = {};    // where in it, if not at its start
  bool is_weak = false;         // it does not keep the object
};

struct value_limits {
  std::uint64_t elements = 16;  // of an array
  std::uint64_t text = 256;     // bytes
};

// Elements of an array: those that have values.
struct element_range {
  std::uint64_t first = 0, end = ~std::uint64_t{0};
};

// The fields of an object; of an array, the list of its elements.
[[nodiscard]] shown_value value_of(const database_set& store, const heap::sound_object& object,
                                   const value_limits& limits, element_range elements = {});

// On one line.
[[nodiscard]] std::string text_of(const shown_value& value);
[[nodiscard]] nlohmann::ordered_json json_of(const shown_value& value);
// "\"it's\\n\"": between double quotes; bytes that are no printable characters or UTF-8 as in C.
[[nodiscard]] std::string quoted(const std::string& bytes);
// "0x200000000010"
[[nodiscard]] std::string address_text(heap::stored_address at);
// The same the other way: hexadecimal digits, after 0x or not. Throws errc::bad_option.
[[nodiscard]] heap::stored_address parse_address(const std::string& text);
[[nodiscard]] inline std::string address_text(heap::address at) { return address_text(heap::stored_address{at}); }

// Whether the word at the offset of an object of the type is where a string keeps its characters.
[[nodiscard]] bool is_text_pointer(const type& of, std::uint64_t offset);

}  // namespace tenure::tools
