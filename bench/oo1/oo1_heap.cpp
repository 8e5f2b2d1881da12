// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "worlds/announced_world.hpp"
#include "worlds/heap_world.hpp"
#include "worlds/with_order.hpp"
#include "worlds/with_way.hpp"

#include "oo1/objects.hpp"

namespace tenure::bench::oo1 {

std::unique_ptr<contender> make_heap(const std::filesystem::path& directory, int parts) {
  return std::make_unique<object_contender<heap_world>>(directory, parts);
}

#define MAKE(WAY, WORLD)                                                                          \
  std::unique_ptr<contender> make_heap_##WAY(const std::filesystem::path& directory, int parts) { \
    return std::make_unique<with_way<object_contender<WORLD>>>(ways::WAY, directory, parts);      \
  }
TENURE_BENCH_WAYS(MAKE)
#undef MAKE

#define MAKE(ORDER)                                                                                           \
  std::unique_ptr<contender> make_heap_##ORDER(const std::filesystem::path& directory, int parts) {           \
    return std::make_unique<with_order<object_contender<heap_world>>>(object_order::ORDER, directory, parts); \
  }
TENURE_BENCH_ORDERS(MAKE)
#undef MAKE

}  // namespace tenure::bench::oo1
