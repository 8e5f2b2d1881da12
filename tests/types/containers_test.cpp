// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of the standard containers against what the containers do: every word that refers to an allocation must be
// described as such, and every word that is described as a reference must refer to one.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tenure/allocator.hpp>

#include "types/zoo.hpp"

namespace types_test {
namespace {

struct allocation {
  const tenure::type* of;
  std::size_t count;
};
std::map<std::byte*, allocation>& allocations() {
  static std::map<std::byte*, allocation> all;
  return all;
}

}  // namespace
}  // namespace types_test

// Stands in for the object heap's.
void* tenure::detail::allocate(const tenure::type& of, std::size_t count, const void*) {
  auto* const memory = static_cast<std::byte*>(::operator new(of.size* count, std::align_val_t(of.alignment)));
  std::memset(memory, 0, of.size * count);
  types_test::allocations()[memory] = {&of, count};
  return memory;
}
void tenure::detail::deallocate(void* memory) noexcept {
  if (memory == nullptr) return;
  const auto found = types_test::allocations().find(static_cast<std::byte*>(memory));
  ::operator delete(memory, std::align_val_t(found->second.of->alignment));
  types_test::allocations().erase(found);
}

namespace types_test {

using tenure::field_kind;
using tenure::pointer_map;
using tenure::type_of;

// An object of the store, so to speak.
template <class T>
class in_store {
 public:
  template <class... Arguments>
  explicit in_store(Arguments&&... arguments)
      : object_(new (tenure::detail::allocate(type_of<T>(), 1, nullptr)) T(std::forward<Arguments>(arguments)...)) {
    EXPECT_TRUE(tenure::is_exact_v<T>);
  }
  ~in_store() {
    if (type_of<T>().operations->destroy != nullptr) type_of<T>().operations->destroy(object_);
    tenure::detail::deallocate(object_);
  }
  in_store(const in_store&) = delete;
  in_store& operator=(const in_store&) = delete;
  T* operator->() { return object_; }
  T& operator*() { return *object_; }

 private:
  T* object_;
};
template <class T>
const allocation* find_allocation() {
  for (const auto& [memory, what] : allocations())
    if (what.of == &tenure::detail::element_type<T>()) return &what;
  return nullptr;
}

class container : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(allocations().empty()); }

  // Checks everything that is allocated.
  void check() {
    for (const auto& [memory, what] : allocations()) {
      SCOPED_TRACE(what.of->name);
      EXPECT_FALSE(what.of->is_conservative);
      check_words(*what.of, memory, what.of->size * what.count);
    }
  }
  std::size_t references_seen_ = 0;

 private:
  // Whether the address is in an allocation, or one past its end.
  static bool is_inside(const std::byte* address) {
    auto above = allocations().upper_bound(const_cast<std::byte*>(address));
    if (above == allocations().begin()) return false;
    --above;
    return address <= above->first + above->second.of->size * above->second.count;
  }
  void check_words(const tenure::type& t, const std::byte* object, std::size_t length) {
    const pointer_map map(t);
    for (std::size_t element = 0; element < length; element += t.size) {
      std::set<std::uint64_t> described;
      for (const auto& w : map.words()) {
        if (!map.holds(w, object + element)) continue;
        ASSERT_NE(w.kind, field_kind::conservative);
        if (w.kind != field_kind::reference && w.kind != field_kind::derived) continue;
        described.insert(w.offset);
        const std::byte* value = nullptr;
        std::memcpy(&value, object + element + w.offset, sizeof value);
        if (value == nullptr) continue;
        ++references_seen_;
        EXPECT_TRUE(is_inside(value) || t.tolerates_stale)
            << t.name << " at " << w.offset << " has " << static_cast<const void*>(value);
      }
      for (std::uint64_t at = 0; at + sizeof(void*) <= t.size; at += sizeof(void*)) {
        const std::byte* value = nullptr;
        std::memcpy(&value, object + element + at, sizeof value);
        EXPECT_TRUE(described.contains(at) || !is_inside(value)) << t.name << " at " << at << ": not described";
      }
    }
  }
};

struct item {
  int number = 0;
  item* next = nullptr;
};
struct by_number {
  bool operator()(const item& one, const item& other) const { return one.number < other.number; }
};
struct stateful_less {
  int sign = 1;
  bool operator()(int one, int other) const { return sign * one < sign * other; }
};

TEST_F(container, strings) {
  using wide_string = std::basic_string<char32_t, std::char_traits<char32_t>, tenure::allocator<char32_t>>;
  in_store<tenure::std_string> text;
  check();
  *text = "short";
  check();
  *text = "long enough that it needs memory of its own";
  check();
  ASSERT_NE(find_allocation<char>(), nullptr);
  EXPECT_EQ(find_allocation<char>()->of, &type_of<char>());
  text->clear();
  check();
  EXPECT_EQ(references_seen_, 4u);
  in_store<std::pair<tenure::std_string, tenure::std_string>> two("a", std::string(100, 'b'));
  in_store<wide_string> wide(U"wide and long");
  check();
  EXPECT_EQ(references_seen_, 4u + 4u);
}

TEST_F(container, vectors) {
  in_store<tenure::std_vector<item>> items;
  check();
  items->resize(5);
  (*items)[2].next = &(*items)[4];
  check();
  const tenure::type* const slots = find_allocation<item>()->of;
  EXPECT_TRUE(slots->tolerates_stale);
  EXPECT_EQ(slots->name, "tenure::slots<types_test::item>");
  EXPECT_NE(slots->fingerprint, type_of<item>().fingerprint);
  items->reserve(100);
  items->clear();
  check();
  in_store<tenure::std_vector<tenure::std_vector<tenure::std_string>>> nested;
  nested->resize(3, {5, tenure::std_string(50, 'x')});
  in_store<tenure::std_vector<bool>> bits(1000u, true);
  check();
  EXPECT_GT(references_seen_, 15u);
}

TEST_F(container, deques) {
  in_store<tenure::std_deque<item>> items;
  check();
  for (int i = 0; i < 1000; ++i) {
    items->push_back({i, nullptr});
    items->push_front({-i, &items->back()});
  }
  check();
  EXPECT_GT(references_seen_, 1000u);
}

TEST_F(container, lists) {
  in_store<tenure::std_list<item>> items;
  check();
  for (int i = 0; i < 10; ++i) items->push_back({i, items->empty() ? nullptr : &items->front()});
  in_store<tenure::std_forward_list<tenure::std_string>> texts;
  check();
  texts->push_front("first");
  texts->push_front(tenure::std_string(100, 'x'));
  check();
  EXPECT_GT(references_seen_, 30u);
}

TEST_F(container, trees) {
  in_store<tenure::std_map<tenure::std_string, item*>> map;
  check();
  for (std::size_t i = 0; i < 100; ++i) (*map)[tenure::std_string(i, 'x')] = nullptr;
  in_store<tenure::std_multimap<int, item>> multimap;
  multimap->emplace(1, item());
  multimap->emplace(1, item());
  in_store<tenure::std_set<item, by_number>> set;
  set->insert({1, nullptr});
  set->insert({2, nullptr});
  in_store<std::set<int, stateful_less, tenure::allocator<int>>> with_state;
  with_state->insert({1, 2, 3});
  in_store<tenure::std_multiset<char>> multiset;
  multiset->insert({'a', 'a'});
  check();
  EXPECT_GT(references_seen_, 300u);
}

TEST_F(container, hash_tables) {
  in_store<tenure::std_unordered_map<tenure::std_string, item>> map;
  check();
  (*map)["one"].number = 1;
  check();
  for (std::size_t i = 0; i < 100; ++i) (*map)[tenure::std_string(i, 'y')].number = 2;
  in_store<tenure::std_unordered_set<int>> set;
  set->insert({1, 2, 3});
  in_store<tenure::std_unordered_multimap<char, item>> multimap;
  multimap->emplace('a', item());
  multimap->emplace('a', item());
  in_store<tenure::std_unordered_multiset<long>> multiset;
  multiset->insert({1, 1});
  check();
  EXPECT_GT(references_seen_, 200u);
}

struct other_hash {
  std::size_t operator()(int value) const { return static_cast<std::size_t>(value) * 3; }
};

TEST_F(container, another_hash_is_another_type) {
  const tenure::type& t = type_of<tenure::std_unordered_set<int, other_hash>>();
  EXPECT_EQ(t.fields.back().name, "hash probe 126");
  EXPECT_EQ(t.fields.back().size, 0u);
}

struct hash_of_pointee {
  std::size_t operator()(const int* value) const { return static_cast<std::size_t>(*value); }
};

TEST_F(container, no_pointer_to_nothing_is_hashed) {
  const tenure::type& t = type_of<tenure::std_unordered_set<int*, hash_of_pointee>>();
  EXPECT_EQ(t.fields.back().name, "hash probe 0");
}

TEST_F(container, of_objects_with_virtual_functions) {
  in_store<tenure::std_vector<zoo::duck>> ducks(3u);
  in_store<tenure::std_list<zoo::city_duck>> others(2u);
  check();
  EXPECT_TRUE(pointer_map(*find_allocation<zoo::duck>()->of).has_vtables());
  std::vector<std::uint64_t> vtables;
  const pointer_map map(*find_allocation<std::_List_node<zoo::city_duck>>()->of);
  for (const auto& w : map.words())
    if (w.kind == field_kind::vtable) {
      vtables.push_back(w.offset);
      EXPECT_EQ(w.of, &type_of<zoo::city_duck>());
    }
  ASSERT_EQ(vtables.size(), 4u);
  EXPECT_EQ(vtables[0], 16u);
}

struct tree {
  tenure::std_vector<tree> children;
  tenure::std_map<int, tree> more;
};

TEST_F(container, of_the_class_that_contains_it) {
  EXPECT_TRUE(tenure::is_persistable_v<tree>);
  EXPECT_TRUE(tenure::is_persistable_v<tenure::std_string*>);
  in_store<tree> root;
  root->children.resize(2);
  root->children[1].more[3].children.resize(1);
  check();
  EXPECT_GT(references_seen_, 10u);
}

}  // namespace types_test
