// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Classes with virtual functions of every kind, for the tests of stable vtables.
#pragma once

#include <array>
#include <optional>
#include <variant>

#include <tenure/fields.hpp>

namespace zoo {

// In a program of another version, functions have been added.
#if defined(ZOO_VERSION_2)
#define ADDED_FUNCTION(name) \
  virtual int name() { return -1; }
#else
#define ADDED_FUNCTION(name)
#endif

struct named {
  ADDED_FUNCTION(added_first)
  virtual ~named() = default;
  virtual int name() const = 0;
};
struct animal : named {
  virtual int legs() const { return 0; }
  int name() const override { return 1; }
  animal* mother = nullptr;
};
struct swimmer {
  virtual ~swimmer() = default;
  ADDED_FUNCTION(added_between)
  virtual int depth() const { return 100 + metres; }
  int metres = 2;
};
struct duck : animal, swimmer {
  int name() const override { return 10 + weight; }
  int legs() const override { return 2; }
  int depth() const override { return 20 + weight; }
  int weight = 5;
};
struct located {
  virtual ~located() = default;
  virtual int place() const { return 30; }
  long where = 3;
  located* near = nullptr;
};
struct resident : virtual located {
  virtual int rent() const { return 7; }
  int place() const override { return 31; }
};
struct city_duck : duck, resident {
  int name() const override { return 40 + house; }
  int rent() const override { return 8; }
  city_duck* neighbour = nullptr;
  int house = 6;
};
struct pond {
  std::optional<duck> guest;
  std::variant<int, swimmer, city_duck> other;
  std::array<duck, 2> pair;
  duck more[2];
  pond* next = nullptr;
};

}  // namespace zoo

template <>
struct tenure::persist<zoo::named> {
  using members = tenure::members<>;
};
template <>
struct tenure::persist<zoo::animal> {
  using bases = tenure::bases<zoo::named>;
  using members = tenure::members<&zoo::animal::mother>;
};
template <>
struct tenure::persist<zoo::swimmer> {
  using members = tenure::members<&zoo::swimmer::metres>;
};
template <>
struct tenure::persist<zoo::duck> {
  using bases = tenure::bases<zoo::animal, zoo::swimmer>;
  using members = tenure::members<&zoo::duck::weight>;
};
template <>
struct tenure::persist<zoo::located> {
  using members = tenure::members<&zoo::located::where, &zoo::located::near>;
};
template <>
struct tenure::persist<zoo::resident> {
  using bases = tenure::bases<zoo::located>;
};
template <>
struct tenure::persist<zoo::city_duck> {
  using bases = tenure::bases<zoo::duck, zoo::resident>;
  using members = tenure::members<&zoo::city_duck::neighbour, &zoo::city_duck::house>;
};
