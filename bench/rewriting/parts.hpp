// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The objects of the stores that are rewritten, as they are stored, and as two later programs have them.
#pragma once

#include <cstdint>

#include <tenure/evolve.hpp>
#include <tenure/string.hpp>
#include <tenure/tenure.hpp>
#include <tenure/vector.hpp>

namespace tenure::bench::rewriting {

struct stored_part {
  std::int32_t number = 0, weight = 0;
  std::int16_t kind = 0;
  stored_part* next = nullptr;
  stored_part* other = nullptr;
  string name;
  double width = 0, height = 0;
  std::int32_t history[6] = {};
};
struct stored_parts {
  vector<stored_part*> all;
};

// Declared verbs: fields in another order, with other names, wider and narrower, new ones, one that is gone.
struct verb_part {
  string name;
  std::int64_t number = 0, mass = 0;
  std::int8_t kind = 0;
  verb_part* next = nullptr;
  verb_part* other = nullptr;
  double width = 0;
  std::int32_t count = 0, history[8] = {};
};
struct verb_parts {
  vector<verb_part*> all;
};
// The same, and a function for each object.
struct function_part {
  string name;
  std::int64_t number = 0, mass = 0;
  std::int8_t kind = 0;
  function_part* next = nullptr;
  function_part* other = nullptr;
  double area = 0;
  std::int32_t count = 0, history[8] = {};
};
struct function_parts {
  vector<function_part*> all;
};

}  // namespace tenure::bench::rewriting

template <>
struct tenure::evolve<tenure::bench::rewriting::verb_part> {
  static void describe(changes<bench::rewriting::verb_part>& of) {
    of.was_named("tenure::bench::rewriting::stored_part");
    of.since(0).renamed("weight", "mass").removed("height").narrowed("kind").added("count", 1);
  }
};
template <>
struct tenure::evolve<tenure::bench::rewriting::verb_parts> {
  static void describe(changes<bench::rewriting::verb_parts>& of) {
    of.was_named("tenure::bench::rewriting::stored_parts");
  }
};
template <>
struct tenure::evolve<tenure::bench::rewriting::function_part> {
  static void describe(changes<bench::rewriting::function_part>& of) {
    using part = bench::rewriting::function_part;
    of.was_named("tenure::bench::rewriting::stored_part");
    of.since(0)
        .renamed("weight", "mass")
        .removed("width")
        .removed("height")
        .narrowed("kind")
        .added("count", 1)
        .converted([](const old_object& was, part& is, conversion&) {
          is.area = was.get<double>("width") * was.get<double>("height");
        });
  }
};
template <>
struct tenure::evolve<tenure::bench::rewriting::function_parts> {
  static void describe(changes<bench::rewriting::function_parts>& of) {
    of.was_named("tenure::bench::rewriting::stored_parts");
  }
};
