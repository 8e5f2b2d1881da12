// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The database of the faulting experiments, as it is stored: the parts of OO1 as the thesis has them [Hosking §5.1.1], the index,
// and the classes and methods of the program that the interpreter runs. An ordinary store with plain pointers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenure::bench::faulting {

struct text {
  std::array<char, 40> bytes{};
};

struct part {
  int id{}, x{}, y{}, build{};
  text* type{};
  std::array<part*, 3> to{};
  std::array<text*, 3> connection_type{};
  std::array<int, 4> length{};  // of three connections
};

// A node of a search tree by id.
struct index_node {
  static constexpr std::size_t fanout = 16;
  int count{};                             // children
  int height{};                            // 0: they are parts
  std::array<int, fanout> lowest{};        // id below each child
  std::array<index_node*, fanout> down{};  // height > 0
  std::array<part*, fanout> parts{};       // height 0
};

struct method {
  static constexpr std::size_t most_code = 96, most_literals = 2;
  text* selector{};
  int arguments{}, temporaries{};
  std::array<std::uint8_t, most_code> code{};
  std::array<text*, most_literals> literals{};  // selectors
};

struct behaviour {  // a class
  static constexpr std::size_t most_methods = 2;
  text* name{};
  behaviour* super{};
  std::array<text*, most_methods> selectors{};
  std::array<method*, most_methods> methods{};
};

enum class kind : std::uint8_t { text, part, index_node, method, behaviour, database };
constexpr std::size_t kinds = 6;

// The selectors that the interpreter is started with.
enum class message : std::uint8_t { find, fetch, traverse };
constexpr std::size_t messages = 3;

struct database {
  index_node* index{};
  std::array<behaviour*, kinds> classes{};
  std::array<text*, messages> selectors{};
  int parts{};
};

struct reference_field {
  std::size_t offset;
  bool is_constrained;  // its target is co-resident: always a direct pointer [Hosking §4.2.1.1]
};
struct layout {
  std::string type;  // name in the store
  std::size_t size;
  std::vector<reference_field> references;
};
[[nodiscard]] const layout& layout_of(kind of);

}  // namespace tenure::bench::faulting
