// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/changed_keys.hpp"

#include <compare>
#include <stdexcept>

#include <gtest/gtest.h>

#include <tenure/cache/map.hpp>
#include <tenure/map.hpp>
#include <tenure/set.hpp>

#include "support/renamed_type.hpp"

namespace changed_keys_types {

namespace was {
struct key {
  std::int32_t a, b;
  auto operator<=>(const key&) const = default;
};
}  // namespace was
namespace turned {
struct key {
  std::int32_t b, a;
  auto operator<=>(const key&) const = default;
};
}  // namespace turned
namespace shrunk {  // what is lost had a part in the order
struct key {
  std::int32_t a;
  auto operator<=>(const key&) const = default;
};
}  // namespace shrunk
namespace grown {
struct key {
  std::int64_t a, b;
  auto operator<=>(const key&) const = default;
};
}  // namespace grown
struct by_a {
  template <class Key>
  bool operator()(const Key& x, const Key& y) const {
    return x.a < y.a;
  }
};

using namespace tenure;

// What is said of the leaves of a container.
template <class Was, class Is>
std::string said() {
  const auto as_stored = [](const type& t) -> const type& {
    return support::renamed(t, {"changed_keys_types::was::", "changed_keys_types::turned::",
                                "changed_keys_types::shrunk::", "changed_keys_types::grown::"});
  };
  const auto leaf_of = [&](const type& container) -> const type& {
    for (const type_field& f : container.fields)
      if (f.name.ends_with("first_")) return as_stored(f.of());
    throw std::logic_error("it is no tree");
  };
  const type &old_leaf = leaf_of(type_of<Was>()), &leaf = leaf_of(type_of<Is>());
  const std::vector<const type*> stored{&as_stored(type_of<Was>()), &old_leaf};
  const auto found = rewriting::nodes_with_changed_keys(stored, types::evolution({&as_stored(type_of<Is>()), &leaf}));
  return found.empty() ? "" : found.at(old_leaf.name);
}

TEST(changed_keys, are_refused_if_their_order_may_be_another_one) {
  EXPECT_EQ((said<set<was::key>, set<was::key>>()), "");
  const std::string turned_said = said<set<was::key>, set<turned::key>>();
  EXPECT_NE(turned_said.find("their order may be another one; with the old program"), turned_said.npos) << turned_said;
  EXPECT_NE((said<map<was::key, std::int64_t>, map<turned::key, std::int64_t>>()), "");
  EXPECT_NE((said<set<was::key>, set<shrunk::key>>()), "");
  EXPECT_EQ((said<set<was::key, by_a>, set<turned::key, by_a>>()), "") << "the program says what the order is";
  EXPECT_EQ((said<cache::map<was::key, std::int64_t>, cache::map<was::key, std::int64_t>>()), "");
  EXPECT_NE((said<cache::map<was::key, std::int64_t>, cache::map<turned::key, std::int64_t>>()), "");
  EXPECT_EQ((said<cache::map<was::key, int, by_a>, cache::map<turned::key, int, by_a>>()), "");
}

TEST(changed_keys, are_refused_if_their_tree_would_be_built_anew) {
  const std::string grown_said = said<set<was::key>, set<grown::key>>();
  EXPECT_NE(grown_said.find("its entries have become larger"), grown_said.npos) << grown_said;
  EXPECT_NE((said<map<was::key, std::int64_t>, map<grown::key, std::int64_t>>()), "");
  EXPECT_NE((said<cache::map<was::key, std::int64_t>, cache::map<grown::key, std::int64_t>>()), "");
}

}  // namespace changed_keys_types
