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

#include "support/dwarf_layout.hpp"
#include "types/zoo.hpp"

namespace types_test::dwarf {

using tenure::support::agreement;
using tenure::support::dwarf_disagreements;

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
  address* heirs_[2] = {};

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
