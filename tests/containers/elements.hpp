// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Elements for tests of containers.
#pragma once

#include <compare>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <tenure/hash.hpp>
#include <tenure/persist.hpp>
#include <tenure/string.hpp>

#include "containers/checked_memory.hpp"

namespace tenure::testing {

using text = basic_string<checked_memory>;

// Throws at the call for which it is set up.
struct tripwire {
  static inline long calls_left = -1;  // below 0: never
  static void step() {
    if (calls_left == 0) throw std::runtime_error("tripwire");
    if (calls_left > 0) --calls_left;
  }
};

// Counts its objects, and those of them that are no longer needed but keep the mark in their bytes. Copying and comparing
// may throw; moving may throw if it is Fragile.
template <bool Fragile>
class counted {
 public:
  static constexpr std::uint64_t mark = 0xB16B00B5CAFED00D;
  static inline long objects = 0;

  counted() : counted(0) {}
  counted(int value) : value_(value) {  // NOLINT(google-explicit-constructor)
    tripwire::step();
    ++objects;
  }
  counted(const counted& other) : value_(other.value_) {
    tripwire::step();
    ++objects;
  }
  counted(counted&& other) noexcept(!Fragile) : value_(other.value_) {
    if (Fragile) tripwire::step();
    other.value_ = -1;
    ++objects;
  }
  counted& operator=(const counted& other) {
    tripwire::step();
    value_ = other.value_;
    return *this;
  }
  counted& operator=(counted&& other) noexcept(!Fragile) {
    if (Fragile) tripwire::step();
    const int value = other.value_;
    other.value_ = -1;
    value_ = value;
    return *this;
  }
  ~counted() {
    EXPECT_EQ(mark_, mark);
    --objects;
  }

  [[nodiscard]] int value() const { return value_; }
  friend bool operator==(const counted& a, const counted& b) {
    tripwire::step();
    return a.value_ == b.value_;
  }
  friend std::strong_ordering operator<=>(const counted& a, const counted& b) {
    tripwire::step();
    return a.value_ <=> b.value_;
  }

 private:
  std::uint64_t mark_ = mark;
  int value_ = 0;

 public:
  static constexpr auto persistent = members<&counted::mark_, &counted::value_>{};
};
using sturdy = counted<false>;
using fragile = counted<true>;

// Relocated by its bytes.
struct marked {
  static constexpr std::uint64_t mark = 0xFEEDFACEDEADBEA7;
  std::uint64_t word = mark;
  int value = 0;
  marked() = default;
  marked(int v) : value(v) {}  // NOLINT(google-explicit-constructor)
  auto operator<=>(const marked&) const = default;
  static constexpr auto persistent = members<&marked::word, &marked::value>{};
};

// So large that nodes have the fewest slots, and trees many levels.
struct bulky {
  std::uint64_t value = 0;
  std::uint64_t filling[50] = {};
  bulky() = default;
  bulky(std::uint64_t v) : value(v) { filling[v % 50] = v; }  // NOLINT(google-explicit-constructor)
  auto operator<=>(const bulky&) const = default;
  static constexpr auto persistent = members<&bulky::value, &bulky::filling>{};
};

inline double test_scale() {
  const char* given = std::getenv("TENURE_TEST_SCALE");
  return given != nullptr && std::atof(given) > 0 ? std::atof(given) : 1;
}

}  // namespace tenure::testing

template <bool Fragile>
struct tenure::hash<tenure::testing::counted<Fragile>> {
  static constexpr std::uint32_t id = 77;
  std::uint64_t operator()(const tenure::testing::counted<Fragile>& x) const noexcept {
    return static_cast<std::uint64_t>(x.value());
  }
};
template <>
struct tenure::hash<tenure::testing::bulky> {
  static constexpr std::uint32_t id = 78;
  std::uint64_t operator()(const tenure::testing::bulky& x) const noexcept { return x.value % 8; }
};
