// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The objects of a random program of random_test.cpp, and what the model says of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/tenure.hpp>

#include "heap_models/random_model.hpp"

namespace random_test_types {

struct thing {
  virtual ~thing() = default;
  [[nodiscard]] virtual std::uint64_t kind() const { return 1; }
  std::uint64_t number = 0;
  static constexpr auto persistent = tenure::members<&thing::number>{};
};
struct node;
struct special_thing final : thing {
  [[nodiscard]] std::uint64_t kind() const override { return 2; }
  node* owner = nullptr;
  tenure::string text;
  static constexpr auto persistent =
      tenure::bases<thing>{} + tenure::members<&special_thing::owner, &special_thing::text>{};
};

struct node {
  std::uint64_t id;
  node* edges[3];
  std::optional<node*> maybe;
  std::variant<std::uint64_t, node*> either;
  tenure::string name;
  tenure::vector<node*> row;
  tenure::map<tenure::string, node*> by_name;
  tenure::hash_map<std::uint64_t, node*> by_id;
  tenure::set<tenure::string> words;
  tenure::ordered_index<std::uint64_t, node*> index;
  tenure::std_string std_name;
  tenure::std_vector<node*> std_row;
  tenure::std_map<std::uint64_t, node*> std_by_id;
  tenure::std_unordered_map<std::uint64_t, node*> std_hashed;
  tenure::std_list<node*> list;
  thing* owned;
  tenure::transient<std::uint64_t> scratch;
};
struct blob {
  char bytes[150000];
};
struct graph {
  tenure::vector<node*> all;
  tenure::vector<blob*> blobs;
  tenure::vector<std::uint64_t> numbers;
};
struct entry_point {
  node* to;
};

inline std::uint64_t id_of(const node* n) { return n == nullptr ? 0 : n->id; }

inline tenure::support::model_node seen(const node& n) {
  tenure::support::model_node m;
  for (int e = 0; e < 3; ++e) m.edges[e] = id_of(n.edges[e]);
  if (n.maybe) m.maybe = id_of(*n.maybe);
  const node* const* to = std::get_if<node*>(&n.either);
  m.either = {to != nullptr, to != nullptr ? id_of(*to) : std::get<0>(n.either)};
  m.name.assign(n.name.begin(), n.name.end());
  m.std_name.assign(n.std_name.begin(), n.std_name.end());
  for (const node* o : n.row) m.row.push_back(id_of(o));
  for (const node* o : n.std_row) m.std_row.push_back(id_of(o));
  for (const node* o : n.list) m.list.push_back(id_of(o));
  for (const auto& [key, o] : n.by_name) m.by_name[{key.begin(), key.end()}] = id_of(o);
  for (const auto& [key, o] : n.by_id) m.by_id[key] = id_of(o);
  for (auto at = n.index.begin(); at != n.index.end(); ++at) m.index[(*at).first] = id_of((*at).second);
  for (const auto& [key, o] : n.std_by_id) m.std_by_id[key] = id_of(o);
  for (const auto& [key, o] : n.std_hashed) m.std_hashed[key] = id_of(o);
  for (const auto& word : n.words) m.words.emplace(word.begin(), word.end());
  if (n.owned != nullptr) {
    m.thing_kind = n.owned->kind();
    m.thing_number = n.owned->number;
    if (const auto* const special = dynamic_cast<const special_thing*>(n.owned)) {
      EXPECT_EQ(special->owner, &n);
      EXPECT_EQ(special->text, std::to_string(n.owned->number) + " is its number, in words that take memory");
    }
  }
  return m;
}

}  // namespace random_test_types
