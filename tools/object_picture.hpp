// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Objects and the references between them, for Graphviz.
#pragma once

#include <cstdio>
#include <string>
#include <unordered_set>
#include <vector>

#include "object_values.hpp"
#include "store_survey.hpp"

namespace tenure::tools {

class object_picture {
 public:
  explicit object_picture(const surveyed_store& in) : in_(in) {}

  void add(const reached_object& which, const shown_value& value);
  // A digraph: nodes for the objects and the roots where the way to them began. `more`: say that not all is there.
  void draw(std::FILE* out, bool more) const;

 private:
  struct node {
    reached_object which;
    std::string label;
  };
  void draw_references(std::FILE* out, const node& from) const;

  const surveyed_store& in_;
  std::vector<node> nodes_;
  std::unordered_set<heap::address> drawn_;
};

}  // namespace tenure::tools
