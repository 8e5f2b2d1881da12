// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the object heap asks of containers: exact descriptions, bytes that may be moved and may be zero, empty containers
// without memory.
#include <tenure/hash_map.hpp>
#include <tenure/hash_set.hpp>
#include <tenure/map.hpp>
#include <tenure/ordered_index.hpp>
#include <tenure/set.hpp>
#include <tenure/string.hpp>
#include <tenure/vector.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <string>

#include <tenure/fields.hpp>

#include "containers/elements.hpp"

namespace tenure::testing {
namespace {

using memory = checked_memory;
using tree = map<text, marked*, less<text>, memory>;
using multi_tree = multimap<text, marked*, less<text>, memory>;
using keys = set<text, less<text>, memory>;
using multi_keys = multiset<text, less<text>, memory>;
using index = ordered_index<text, marked*, less<text>, memory>;
using table = hash_map<text, marked*, hash<text>, equal_to<text>, memory>;
using hashed_keys = hash_set<text, hash<text>, equal_to<text>, memory>;
using row = vector<marked*, memory>;

template <class C>
class persistence : public containers {};
using all = ::testing::Types<text, row, tree, multi_tree, keys, multi_keys, index, table, hashed_keys>;
TYPED_TEST_SUITE(persistence, all);

void fill(text& c) { c = "a text that needs memory of its own"; }
void fill(row& c) {
  for (int i = 0; i < 100; ++i) c.push_back(nullptr);
}
template <class C>
void fill(C& c) {
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "a key that needs memory of its own " + std::to_string(i);
    if constexpr (std::is_same_v<C, index>)
      c.insert(key, nullptr);
    else if constexpr (requires { typename C::mapped_type; })
      c.emplace(key, nullptr);
    else
      c.insert(text(key));
  }
}

std::set<std::uint64_t> references_of(const type& of) {
  std::set<std::uint64_t> offsets;
  const pointer_map map_of(of);
  for (const auto& word : map_of.words()) {
    EXPECT_EQ(word.kind, field_kind::reference);
    offsets.insert(word.offset);
  }
  return offsets;
}

// [types.containers.exact]
TYPED_TEST(persistence, descriptions_are_exact_and_name_the_pointers) {
  static_assert(is_exact_v<TypeParam>);
  static_assert(is_persistable_v<TypeParam>);
  const type& of = type_of<TypeParam>();
  EXPECT_FALSE(of.is_conservative);
  EXPECT_EQ(of.size, sizeof(TypeParam));
  // The container's own pointers come first; the rest is numbers.
  constexpr bool is_tree = requires(TypeParam c) { c.begin().leaf(); };
  EXPECT_EQ(references_of(of), is_tree ? (std::set<std::uint64_t>{0, 8, 16}) : std::set<std::uint64_t>{0});
}

TYPED_TEST(persistence, every_word_of_a_filled_container_that_is_an_address_is_described) {
  TypeParam c;
  fill(c);
  // What the collector would follow, against all words that look like addresses of blocks, or of what is in them.
  const auto is_address = [](std::uint64_t word) {
    const void* at = reinterpret_cast<const void*>(word);
    auto after = memory::blocks.upper_bound(at);
    if (after == memory::blocks.begin()) return false;
    const auto& [start, is] = *--after;
    return at < static_cast<const std::byte*>(start) + is.bytes;
  };
  std::size_t found = 0;
  for (const auto& [start, is] : memory::blocks) {
    for (std::size_t at = 0; at + 8 <= is.bytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, static_cast<const std::byte*>(start) + at, sizeof word);
      if (!is_address(word)) continue;
      ++found;
      ASSERT_TRUE(is.is_reference(at % (is.bytes / is.count))) << is.of->name() << " at " << at;
      ASSERT_TRUE(memory::blocks.contains(reinterpret_cast<const void*>(word))) << "all point to the start of a block";
    }
  }
  if constexpr (!std::is_same_v<TypeParam, text> && !std::is_same_v<TypeParam, row>) {
    EXPECT_GE(found, 2000U);
  }
}

// [types.containers.relocatable]
TYPED_TEST(persistence, bytes_may_be_moved_and_may_be_zero) {
  static_assert(is_relocatable<TypeParam>::value);
  alignas(TypeParam) std::byte there[sizeof(TypeParam)] = {};
  auto& moved = reinterpret_cast<TypeParam&>(there);
  EXPECT_TRUE(moved.empty());
  EXPECT_EQ(moved.begin(), moved.end());

  auto* here = new TypeParam;
  EXPECT_TRUE(memory::blocks.empty()) << "an empty container has no memory";
  fill(*here);
  const TypeParam copy = *here;
  std::memcpy(there, static_cast<const void*>(here), sizeof there);
  std::memset(static_cast<void*>(here), 0xAB, sizeof *here);
  ::operator delete(static_cast<void*>(here));
  EXPECT_EQ(moved, copy);
  fill(moved);
  moved.~TypeParam();
}

TYPED_TEST(persistence, a_container_that_was_emptied_has_no_words_left) {
  TypeParam c;
  fill(c);
  c.clear();
  if constexpr (requires { c.shrink_to_fit(); }) c.shrink_to_fit();
  if constexpr (!std::is_same_v<TypeParam, text>) {
    EXPECT_TRUE(memory::blocks.empty());
  }
  fill(c);
  const TypeParam moved = std::move(c);
  std::array<std::byte, sizeof c> bytes{};
  std::memcpy(bytes.data(), static_cast<const void*>(&c), sizeof c);
  EXPECT_EQ(bytes, decltype(bytes){}) << "what was moved from is zero";
}

// A class that is derived from a container may refer to itself.
struct derived : row {
  derived* self = this;
};
static_assert(!is_relocatable<derived>::value);
static_assert(is_relocatable<std::pair<const text, row>>::value);
static_assert(!is_relocatable<std::pair<const text, derived>>::value);

}  // namespace
}  // namespace tenure::testing
