// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions against debug information; and that this finds what is wrong.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include <tenure/allocator.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/hash_set.hpp>
#include <tenure/map.hpp>
#include <tenure/ordered_index.hpp>
#include <tenure/set.hpp>
#include <tenure/string.hpp>
#include <tenure/vector.hpp>

#include "support/dwarf_layout.hpp"
#include "types/zoo.hpp"

namespace types_test::dwarf {

using tenure::support::agreement;
using tenure::support::dwarf_disagreements;
using tenure::support::exact_disagreements;

struct address {
  int number;
  tenure::std_string street;
  address* next;
};
struct everything {
  char text[20];
  address* many[2][3];
  address inside[3];
  std::optional<address> maybe;
  std::optional<address*> maybe_pointer;
  std::variant<int, address, zoo::duck> either;
  std::variant<int, address*> either_pointer;
  std::pair<address*, bool> two;
  std::tuple<char, address*, address> three;
  std::array<address, 2> fixed;
  std::atomic<address*> changing;
  tenure::transient<int (*)(int)> function;
  tenure::transient<std::array<void*, 3>> cache;
  zoo::duck duck;
  tenure::std_vector<address> list;
  tenure::std_map<int, address> by_number;
  tenure::std_unordered_map<tenure::std_string, address*> by_name;
};

// Listing members is where people err.
class complete_account {
  int number_ = 0;
  address* owner_ = nullptr;
  address* heirs_[2] = {};

 public:
  static constexpr auto persistent =
      tenure::members<&complete_account::number_, &complete_account::owner_, &complete_account::heirs_>{};
};
class incomplete_account {
  int number_ = 0;
  address* owner_ = nullptr;
  [[maybe_unused]] address* heirs_[2] = {};

 public:
  static constexpr auto persistent =
      tenure::members<&incomplete_account::number_, &incomplete_account::owner_>{} + tenure::rest_is_data{};
};
struct with_forgotten_base : address, zoo::swimmer {
  address* own = nullptr;
};
class unknown {
 public:
  [[nodiscard]] bool is_empty() const { return pointer_ == nullptr && number_ == 0; }

 private:
  address* pointer_ = nullptr;
  long number_ = 0;
};

}  // namespace types_test::dwarf

template <>
struct tenure::persist<types_test::dwarf::with_forgotten_base> {
  using bases = tenure::bases<zoo::swimmer>;
  using members = tenure::members<&types_test::dwarf::with_forgotten_base::own>;
  static constexpr bool rest_is_data = true;
};

namespace types_test::dwarf {

// [types.exact]
TEST(dwarf, agrees_with_aggregates) {
  EXPECT_EQ(dwarf_disagreements<address>(), agreement);
  EXPECT_EQ(dwarf_disagreements<everything>(), agreement);
}

TEST(dwarf, agrees_with_classes) {
  EXPECT_EQ(dwarf_disagreements<complete_account>(), agreement);
  EXPECT_EQ(dwarf_disagreements<zoo::animal>(), agreement);
  EXPECT_EQ(dwarf_disagreements<zoo::duck>(), agreement);
  EXPECT_EQ(dwarf_disagreements<zoo::city_duck>(), agreement);
  EXPECT_EQ(dwarf_disagreements<zoo::pond>(), agreement);
  EXPECT_EQ(dwarf_disagreements<unknown>(), agreement);
}

TEST(dwarf, agrees_with_containers) {
  using string = tenure::std_string;
  EXPECT_EQ(dwarf_disagreements<string>(), agreement);
  EXPECT_EQ(dwarf_disagreements<tenure::std_vector<address>>(), agreement);
  EXPECT_EQ(dwarf_disagreements<tenure::std_vector<bool>>(), agreement);
  EXPECT_EQ(dwarf_disagreements<tenure::std_deque<address>>(), agreement);
  EXPECT_EQ(dwarf_disagreements<tenure::std_list<address>>(), agreement);
  EXPECT_EQ(dwarf_disagreements<tenure::std_forward_list<address>>(), agreement);
  EXPECT_EQ((dwarf_disagreements<tenure::std_map<string, address>>()), agreement);
  EXPECT_EQ((dwarf_disagreements<tenure::std_multimap<string, address>>()), agreement);
  EXPECT_EQ(dwarf_disagreements<tenure::std_set<string>>(), agreement);
  EXPECT_EQ((dwarf_disagreements<tenure::std_unordered_map<string, address>>()), agreement);
  EXPECT_EQ(dwarf_disagreements<tenure::std_unordered_set<string>>(), agreement);
}

TEST(dwarf, agrees_with_nodes_of_containers) {
  using value = std::pair<const tenure::std_string, address>;
  EXPECT_EQ(dwarf_disagreements<std::_List_node<value>>(), agreement);
  EXPECT_EQ(dwarf_disagreements<std::_List_node<zoo::duck>>(), agreement);
  EXPECT_EQ(dwarf_disagreements<std::_Fwd_list_node<value>>(), agreement);
  EXPECT_EQ(dwarf_disagreements<std::_Rb_tree_node<value>>(), agreement);
  EXPECT_EQ((dwarf_disagreements<std::__detail::_Hash_node<value, true>>()), agreement);
  EXPECT_EQ((dwarf_disagreements<std::__detail::_Hash_node<value, false>>()), agreement);
}

template <class... T>
void expect_all_exact() {
  const auto expect_exact = [](const std::vector<std::string>& found) { EXPECT_EQ(found, agreement); };
  (expect_exact(exact_disagreements<T>()), ...);
}

// The library's own containers, and all that they allocate.
TEST(dwarf, agrees_exactly_with_the_librarys_containers) {
  using text = tenure::string;
  expect_all_exact<text, tenure::vector<address>, tenure::vector<text>, tenure::vector<address*>>();
  expect_all_exact<tenure::map<text, address>, tenure::multimap<text, zoo::duck>, tenure::map<int, address*>,
                   tenure::set<text>, tenure::multiset<address*>, tenure::ordered_index<text, address*>>();
  expect_all_exact<tenure::hash_map<text, address*>, tenure::hash_map<int, zoo::duck>, tenure::hash_set<text>,
                   tenure::hash_set<address*>>();
}

TEST(dwarf, agrees_exactly_with_nodes_of_the_librarys_containers) {
  using text = tenure::string;
  using tenure::detail::hash_group;
  using tenure::detail::tree_inner;
  using tenure::detail::tree_leaf;
  expect_all_exact<tenure::detail::tree_node, tree_inner<text>, tree_inner<int>, tree_inner<address*>,
                   tree_inner<std::pair<text, address*>>>();
  expect_all_exact<tree_leaf<std::pair<const text, address>>, tree_leaf<std::pair<const int, address*>>,
                   tree_leaf<std::pair<const text, zoo::duck>>, tree_leaf<text>, tree_leaf<address*>,
                   tree_leaf<std::pair<text, address*>>>();
  expect_all_exact<hash_group<std::pair<const text, address*>>, hash_group<std::pair<const int, zoo::duck>>,
                   hash_group<text>, hash_group<address*>>();
}

TEST(dwarf, agrees_exactly_with_the_standards_containers) {
  using text = tenure::std_string;
  using value = std::pair<const text, address>;
  expect_all_exact<text, tenure::std_vector<address>, tenure::std_vector<bool>, tenure::std_deque<address>,
                   tenure::std_list<address>, tenure::std_forward_list<address>, tenure::std_map<text, address>,
                   tenure::std_multimap<text, address>, tenure::std_set<text>, tenure::std_multiset<text>,
                   tenure::std_unordered_map<text, address>, tenure::std_unordered_multimap<text, address>,
                   tenure::std_unordered_set<text>, tenure::std_unordered_multiset<text>>();
  expect_all_exact<std::_List_node<value>, std::_Fwd_list_node<value>, std::_Rb_tree_node<value>,
                   std::_Rb_tree_node<text>, std::__detail::_Hash_node<value, true>,
                   std::__detail::_Hash_node<text, true>,
                   std::__detail::_Hash_node<std::pair<const int, address>, false>, std::__detail::_Hash_node_base>();
  // Arrays, whose slots may hold old pointers.
  EXPECT_EQ(exact_disagreements<address>(tenure::detail::element_type<address>()), agreement);
  EXPECT_EQ(exact_disagreements<zoo::duck>(tenure::detail::element_type<zoo::duck>()), agreement);
}

TEST(dwarf, finds_what_is_conservative) {
  EXPECT_EQ(exact_disagreements<unknown>(), (std::vector<std::string>{
                                                "types_test::dwarf::unknown: is conservative",
                                                "types_test::dwarf::unknown: 8 bytes at offset 0 are conservative",
                                                "types_test::dwarf::unknown: 8 bytes at offset 8 are conservative",
                                            }));
}

TEST(dwarf, finds_what_a_trait_leaves_out) {
  EXPECT_EQ(dwarf_disagreements<incomplete_account>(),
            (std::vector<std::string>{
                "types_test::dwarf::incomplete_account.heirs_[0] at offset 16 is a pointer that is not described",
                "types_test::dwarf::incomplete_account.heirs_[1] at offset 24 is a pointer that is not described",
            }));
  const auto forgotten = dwarf_disagreements<with_forgotten_base>();
  EXPECT_EQ(forgotten.size(), 2u);  // the street's characters, and `next`
}

TEST(dwarf, finds_what_is_no_pointer) {
  tenure::type wrong = tenure::type_of<address>();
  wrong.fields.at(0).kind = tenure::field_kind::reference;
  wrong.fields.at(0).size = 8;
  const auto found = tenure::support::dwarf_disagreements(&tenure::support::dwarf_anchor<address>, wrong);
  EXPECT_EQ(found, (std::vector<std::string>{"number at offset 0 is described as a pointer, and is none"}));
}

}  // namespace types_test::dwarf
