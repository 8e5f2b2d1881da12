// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A contender over the object heap, whose database is written anew in some order when it has been made.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include <tenure/rewrite.hpp>

namespace tenure::bench {

template <class Contender>
class with_order : public Contender {
 public:
  template <class... Args>
  explicit with_order(object_order order, const std::filesystem::path& directory, Args&&... args)
      : Contender(directory, std::forward<Args>(args)...), store_(directory / "store"), order_(order) {}
  std::string setting() const override { return "written anew after it was made"; }
  void create() override {
    Contender::create();
    is_new_ = true;
  }
  void close() override {
    Contender::close();
    if (std::exchange(is_new_, false)) (void)compact(store_.string(), {.order = order_});
  }

 private:
  const std::filesystem::path store_;
  const object_order order_;
  bool is_new_ = false;
};

// clang-format off
#define TENURE_BENCH_ORDERS(one) \
  one(breadth_first) \
  one(depth_first) \
  one(by_address) \
  one(by_type)
// clang-format on

}  // namespace tenure::bench
