// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a random program of random_test.cpp has in its store, in ordinary memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenure::support {

// A node in ordinary memory: references are ids, and 0.
struct model_node {
  std::array<std::uint64_t, 3> edges{};
  std::optional<std::uint64_t> maybe;
  std::pair<bool, std::uint64_t> either{false, 0};
  std::string name, std_name;
  std::vector<std::uint64_t> row, std_row, list;
  std::map<std::string, std::uint64_t> by_name;
  std::map<std::uint64_t, std::uint64_t> by_id, index, std_by_id, std_hashed;
  std::set<std::string> words;
  std::uint64_t thing_kind = 0, thing_number = 0;
  bool operator==(const model_node&) const = default;
};
struct model {
  std::vector<std::uint64_t> all;
  std::map<std::uint64_t, model_node> nodes;
  std::vector<char> blobs;
  std::vector<std::uint64_t> numbers;
  std::map<std::string, std::uint64_t> entries;
  bool operator==(const model&) const = default;
};

// Where two models differ first.
inline std::string difference(const model& a, const model& b) {
  if (a.all != b.all) return "other nodes";
  if (a.blobs != b.blobs) return "other blobs";
  if (a.numbers.size() != b.numbers.size()) return "another count of numbers";
  if (const auto [x, y] = std::ranges::mismatch(a.numbers, b.numbers); x != a.numbers.end())
    return "number " + std::to_string(x - a.numbers.begin()) + " of " + std::to_string(a.numbers.size()) + " is " +
           std::to_string(*x) + ", not " + std::to_string(*y);
  if (a.entries != b.entries) return "other entries";
  for (const auto& [id, n] : a.nodes) {
    const model_node& m = b.nodes.at(id);
    if (n == m) continue;
    std::string text = "node " + std::to_string(id) + ":";
    const auto tell = [&](const char* what, const auto& x, const auto& y) {
      if (x != y) text += std::string(" ") + what;
    };
    tell("edges", n.edges, m.edges);
    tell("maybe", n.maybe, m.maybe);
    tell("either", n.either, m.either);
    tell("name", n.name, m.name);
    tell("std_name", n.std_name, m.std_name);
    tell("row", n.row, m.row);
    tell("std_row", n.std_row, m.std_row);
    tell("list", n.list, m.list);
    tell("by_name", n.by_name, m.by_name);
    tell("by_id", n.by_id, m.by_id);
    tell("index", n.index, m.index);
    tell("std_by_id", n.std_by_id, m.std_by_id);
    tell("std_hashed", n.std_hashed, m.std_hashed);
    tell("words", n.words, m.words);
    tell("thing", n.thing_number, m.thing_number);
    return text;
  }
  return "";
}

}  // namespace tenure::support
