// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the churned graph is made of: groups of objects that refer to each other, in a circle and across it, half of them with
// two references and half with three. A slot has one group. Everything about a group follows from its serial number, so who
// knows the numbers knows what must be there.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>

namespace tenure::bench::collect {

inline constexpr std::uint64_t group_size = 8;

struct node {
  node *next = nullptr, *other = nullptr;
  std::uint64_t number = 0;
  std::uint64_t payload[4] = {};
};
struct large_node {
  node base;
  node* third = nullptr;
  std::uint64_t more[4] = {};
};
inline constexpr std::uint64_t small_bytes = sizeof(node), large_bytes = sizeof(large_node);
static_assert(small_bytes == 56 && large_bytes == 96);
// Of a group that is live, with the slot's reference to it.
inline constexpr std::uint64_t group_bytes = group_size / 2 * (small_bytes + large_bytes) + 8;

constexpr std::uint64_t number_of(std::uint64_t serial, std::uint64_t at) { return serial * group_size + at; }
constexpr bool is_large(std::uint64_t at) { return at % 2 != 0; }
// The places in the group to which the object at this one refers.
constexpr std::array<std::uint64_t, 3> references_of(std::uint64_t serial, std::uint64_t at) {
  const std::uint64_t draw = (number_of(serial, at) + 1) * 0x9e3779b97f4a7c15u >> 32;
  return {(at + 1) % group_size, draw % group_size, draw / group_size % group_size};
}
// The sum of a group's numbers.
constexpr std::uint64_t sum_of(std::uint64_t serial) {
  return serial * group_size * group_size + group_size * (group_size - 1) / 2;
}

// Over memory: the group, by its first object. make(node*&) makes a small object, and make(large_node*&) a large one.
template <class Make>
node* make_group(std::uint64_t serial, Make&& make) {
  std::array<node*, group_size> all{};
  for (std::uint64_t at = 0; at < group_size; ++at) {
    if (is_large(at)) {
      large_node* made = nullptr;
      make(made);
      all[at] = &made->base;
    } else {
      make(all[at]);
    }
  }
  for (std::uint64_t at = 0; at < group_size; ++at) {
    const auto to = references_of(serial, at);
    node& one = *all[at];
    one.next = all[to[0]];
    one.other = all[to[1]];
    one.number = number_of(serial, at);
    for (auto& word : one.payload) word = one.number;
    if (is_large(at)) reinterpret_cast<large_node&>(one).third = all[to[2]];
  }
  return all[0];
}
// Calls end(node*) or end(large_node*) for each object, which it may destroy.
template <class End>
void end_group(node* first, End&& end) {
  std::array<node*, group_size> all{};
  for (std::uint64_t at = 0; at < group_size; ++at, first = first->next) all[at] = first;
  for (std::uint64_t at = 0; at < group_size; ++at) {
    if (is_large(at)) {
      end(reinterpret_cast<large_node*>(all[at]));
    } else {
      end(all[at]);
    }
  }
}
// By following what is stored. A reference that leads out of the group throws.
inline std::uint64_t sum_by_following(const node* first) {
  const std::uint64_t serial = first->number / group_size;
  std::uint64_t sum = 0;
  const node* one = first;
  for (std::uint64_t at = 0; at < group_size; ++at, one = one->next) {
    const node* const third = is_large(at) ? reinterpret_cast<const large_node*>(one)->third : first;
    if (one->other->number / group_size != serial || third->number / group_size != serial ||
        one->payload[3] != one->number)
      throw std::runtime_error("wrong answer: an object is not what it was");
    sum += one->number;
  }
  return sum;
}

// As rows: what a record has in place of the addresses is the numbers of objects.
struct row {
  std::uint64_t next = 0, other = 0, number = 0, payload[4] = {}, third = 0, more[4] = {};
};
static_assert(sizeof(row) == large_bytes);
constexpr std::uint64_t row_bytes(std::uint64_t at) { return is_large(at) ? large_bytes : small_bytes; }
constexpr row row_of(std::uint64_t serial, std::uint64_t at) {
  const auto to = references_of(serial, at);
  row made;
  made.next = number_of(serial, to[0]);
  made.other = number_of(serial, to[1]);
  made.number = number_of(serial, at);
  for (auto& word : made.payload) word = made.number;
  made.third = is_large(at) ? number_of(serial, to[2]) : 0;
  return made;
}

}  // namespace tenure::bench::collect
