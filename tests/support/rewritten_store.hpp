// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store with a bit of everything that can refer to something, and what must be found in it after it was rewritten.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <tenure/allocator.hpp>
#include <tenure/hash_map.hpp>
#include <tenure/map.hpp>
#include <tenure/rewrite.hpp>
#include <tenure/tenure.hpp>
#include <tenure/transient.hpp>
#include <tenure/weak.hpp>

#include "support/expect_error.hpp"
#include "support/test_store.hpp"

namespace tenure::rewritten_types {

struct place {
  int x, y;
};
struct shape {
  virtual ~shape() = default;
  [[nodiscard]] virtual int corners() const { return 0; }
  int color = 0;
  static constexpr auto persistent = members<&shape::color>{};
};
struct named {
  virtual ~named() = default;
  [[nodiscard]] virtual std::string kind() const { return "none"; }
  tenure::string name;
  static constexpr auto persistent = members<&named::name>{};
};
struct triangle : shape, named {
  [[nodiscard]] int corners() const override { return 3; }
  [[nodiscard]] std::string kind() const override { return "triangle"; }
  triangle* next = nullptr;
  static constexpr auto persistent = bases<shape, named>{} + members<&triangle::next>{};
};

struct item {
  std::uint64_t number;
  item* next;
  item* other;
  place where;
  int* y_of_next;  // into the next one
  named* picture;  // a base that is not at the start
  tenure::string name;
  tenure::vector<item*> near;
  std::optional<item*> perhaps;
  std::variant<std::uint64_t, item*, place> one_of;
  weak<item> weakly;
  transient<std::uint64_t> scratch;
  std_string standard_name;
  std_list<item*> listed;
  std_map<std::uint64_t, item*> by_number;
  std_unordered_map<std::uint64_t, item*> hashed;
  std_deque<item*> queue;
  std_vector<std_string> words;
};
struct everything {
  tenure::vector<item*> all;
  tenure::map<tenure::string, item*> by_name;
  tenure::hash_map<std::uint64_t, place> places;
  tenure::vector<place> corners;
  place* corner;  // an element
  void* end;      // behind the last of `block`
  std::uint64_t* block;
};

}  // namespace tenure::rewritten_types

namespace tenure::support {

using namespace tenure::rewritten_types;

inline std::string long_name(std::uint64_t n) { return "the item that has the number " + std::to_string(n); }

// `weakly`: whether items have weak references, too. `beside(n)` is called for each item.
inline void fill(
    store& s, everything& root, std::uint64_t count, bool weakly = true,
    const std::function<void(std::uint64_t)>& beside = [](std::uint64_t) {}) {
  auto far = s.find_database("far");
  s.transact([&] {
    item* last = nullptr;
    triangle* last_picture = nullptr;
    for (std::uint64_t n = 0; n < count; ++n) {
      beside(n);
      item* const i = far && n % 3 == 0 ? far->make<item>() : s.make<item>();
      i->number = n;
      i->next = last;
      i->other = n % 7 == 0 ? i : last;
      i->where = {static_cast<int>(n), -static_cast<int>(n)};
      i->y_of_next = last != nullptr ? &last->where.y : nullptr;
      auto* const picture = s.make<triangle>();
      picture->name = n % 2 == 0 ? "short" : long_name(n);
      picture->next = std::exchange(last_picture, picture);
      i->picture = picture;
      i->name = n % 2 == 0 ? std::to_string(n) : long_name(n);
      i->near.push_back(i);
      if (last != nullptr) i->near.push_back(last);
      if (n % 2 == 0) i->perhaps = last;
      if (n % 3 == 0) i->one_of = n;
      if (n % 3 == 1) i->one_of = last;
      if (n % 3 == 2) i->one_of = place{1, static_cast<int>(n)};
      i->scratch = n;
      if (weakly && last != nullptr) i->weakly = weak(last);
      i->standard_name = n % 2 == 1 ? std_string("short") : std_string(long_name(n).c_str());
      i->listed.push_back(i);
      i->listed.push_back(last);
      for (std::uint64_t k = 0; k < n % 5; ++k) {
        i->by_number[k] = i;
        i->hashed[k] = last;
        i->queue.push_back(i);
        i->words.push_back(std_string(long_name(k).c_str()));
      }
      if (n % 4 == 3 && !i->queue.empty()) i->queue.pop_front();
      root.all.push_back(i);
      root.by_name[i->name] = i;
      root.places[n] = i->where;
      root.corners.push_back(i->where);
      last = i;
    }
    root.corner = root.corners.data() + root.corners.size() / 2;
  });
}

inline void expect_filled(const everything& root, std::uint64_t count, bool weakly = true) {
  ASSERT_EQ(root.all.size(), count);
  ASSERT_EQ(root.by_name.size(), count);
  item* last = nullptr;
  const triangle* last_picture = nullptr;
  for (std::uint64_t n = 0; n < count; ++n) {
    item* const i = root.all[n];
    SCOPED_TRACE(n);
    ASSERT_EQ(i->number, n);
    ASSERT_EQ(i->next, last);
    EXPECT_EQ(i->other, n % 7 == 0 ? i : last);
    EXPECT_EQ(i->where.x, static_cast<int>(n));
    EXPECT_EQ(i->y_of_next, last != nullptr ? &last->where.y : nullptr);
    EXPECT_EQ(i->picture->kind(), "triangle");
    EXPECT_EQ(i->picture->name, n % 2 == 0 ? "short" : long_name(n));
    const auto* const picture = dynamic_cast<const triangle*>(i->picture);
    ASSERT_NE(picture, nullptr);
    EXPECT_EQ(picture->corners(), 3);
    EXPECT_EQ(picture->next, std::exchange(last_picture, picture));
    EXPECT_EQ(i->name, n % 2 == 0 ? std::to_string(n) : long_name(n));
    EXPECT_EQ(i->near.size(), last != nullptr ? 2u : 1u);
    EXPECT_EQ(i->near[0], i);
    EXPECT_EQ(i->near[i->near.size() - 1], last != nullptr ? last : i);
    EXPECT_EQ(i->perhaps, n % 2 == 0 ? std::optional(last) : std::nullopt);
    if (n % 3 == 0) {
      EXPECT_EQ(std::get<std::uint64_t>(i->one_of), n);
    }
    if (n % 3 == 1) {
      EXPECT_EQ(std::get<item*>(i->one_of), last);
    }
    if (n % 3 == 2) {
      EXPECT_EQ(std::get<place>(i->one_of).y, static_cast<int>(n));
    }
    EXPECT_EQ(i->weakly.lock(), weakly ? last : nullptr);
    EXPECT_EQ(i->standard_name, n % 2 == 1 ? "short" : long_name(n).c_str());
    EXPECT_EQ(i->listed.size(), 2u);
    EXPECT_EQ(i->listed.front(), i);
    EXPECT_EQ(i->listed.back(), last);
    EXPECT_EQ(i->by_number.size(), n % 5);
    EXPECT_EQ(i->queue.size(), n % 4 == 3 && n % 5 != 0 ? n % 5 - 1 : n % 5);
    for (item* const each : i->queue) EXPECT_EQ(each, i);
    for (std::uint64_t k = 0; k < n % 5; ++k) {
      EXPECT_EQ(i->by_number.at(k), i);
      EXPECT_EQ(i->hashed.at(k), last);
      EXPECT_EQ(i->words[k], long_name(k).c_str());
    }
    EXPECT_EQ(root.by_name.at(i->name), i);
    EXPECT_EQ(root.places.at(n).y, -static_cast<int>(n));
    EXPECT_EQ(root.corners[n].x, static_cast<int>(n));
    last = i;
  }
  EXPECT_EQ(root.corner, root.corners.data() + root.corners.size() / 2);
}

}  // namespace tenure::support
