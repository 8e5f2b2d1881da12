// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A contender over the object heap, whose store learns what was written in one of the ways.
#pragma once

#include <string>
#include <utility>

#include "worlds/heap_world.hpp"
#include "worlds/ways.hpp"

namespace tenure::bench {

template <class Contender>
class with_way : public Contender {
 public:
  template <class... Args>
  explicit with_way(const way& of, Args&&... args) : Contender(std::forward<Args>(args)...), of_(of) {}
  std::string setting() const override { return of_.setting; }
  void create() override {
    heap_world::how = of_.applied_to({});
    Contender::create();
  }
  void open() override {
    heap_world::how = of_.applied_to({});
    Contender::open();
  }

 private:
  const way of_;
};

}  // namespace tenure::bench
