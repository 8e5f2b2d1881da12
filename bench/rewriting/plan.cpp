// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Fifty types that have changed, and how long it takes to plan what becomes of their objects. It looks at no object.
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tenure/evolve.hpp>
#include <tenure/string.hpp>
#include <tenure/vector.hpp>

#include "rewriting/contender.hpp"
#include "types/evolution.hpp"

namespace tenure::bench::rewriting {

template <std::size_t N>
struct stored_kind {
  std::int32_t number = 0, weight = 0;
  std::int16_t kind = 0;
  stored_kind* next = nullptr;
  string name;
  vector<stored_kind*> others;
  double width = 0, height = 0;
  std::int32_t history[6] = {}, bytes[N + 1] = {};
};

template <std::size_t N>
struct planned_kind {
  string name;
  std::int64_t number = 0, mass = 0;
  std::int8_t kind = 0;
  planned_kind* next = nullptr;
  vector<planned_kind*> others;
  double width = 0;
  std::int32_t count = 0, history[8] = {}, bytes[N + 1] = {};
};

}  // namespace tenure::bench::rewriting

template <std::size_t N>
struct tenure::evolve<tenure::bench::rewriting::planned_kind<N>> {
  static void describe(changes<bench::rewriting::planned_kind<N>>& of) {
    of.was_named(type_of<bench::rewriting::stored_kind<N>>().name);
    of.since(0).renamed("weight", "mass").removed("height").narrowed("kind").added("count", 1);
  }
};

namespace tenure::bench::rewriting {

namespace {

template <std::size_t... N>
double plan_all(std::index_sequence<N...>) {
  const std::vector<const type*> stored{&type_of<stored_kind<N>>()...};
  const std::vector<const type*> program{&type_of<planned_kind<N>>()..., &type_of<vector<planned_kind<N>*>>()...,
                                         &type_of<string>()};
  const auto start = std::chrono::steady_clock::now();
  const types::evolution plan(program);
  std::vector<std::string> problems;
  std::size_t copies = 0;
  for (const type* const t : stored) copies += plan.plan(*t, *plan.program_type_of(*t), problems).copies.size();
  plan.find_other_problems(stored, problems);
  const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!problems.empty() || copies < stored.size()) throw std::runtime_error("wrong answer: a plan that cannot be");
  return taken * 1e3;
}

}  // namespace

double plan_types() { return plan_all(std::make_index_sequence<planned_types>()); }

}  // namespace tenure::bench::rewriting
