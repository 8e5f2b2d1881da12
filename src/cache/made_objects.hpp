// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The objects that a transaction has made: a list from which each can be taken out, because it knows its place.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <vector>

namespace tenure::cache {

struct cached_object;

class made_objects {
 public:
  // So that the next add() throws nothing.
  void reserve_one_more();
  void add(cached_object& object);
  void remove(cached_object& object) noexcept;
  void clear() noexcept { objects_.clear(); }
  [[nodiscard]] auto begin() const { return objects_.begin(); }
  [[nodiscard]] auto end() const { return objects_.end(); }

 private:
  std::vector<cached_object*> objects_;
};

}  // namespace tenure::cache
