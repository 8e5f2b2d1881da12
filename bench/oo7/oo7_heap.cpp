// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "worlds/announced_world.hpp"
#include "worlds/heap_world.hpp"

#include "oo7/object_contender.hpp"

namespace tenure::bench::oo7 {

std::unique_ptr<contender> make_heap(const std::filesystem::path& directory, const configuration& how) {
  return std::make_unique<object_contender<heap_world>>(directory, how);
}

std::unique_ptr<contender> make_heap_announced(const std::filesystem::path& directory, const configuration& how) {
  return std::make_unique<object_contender<announced_world<rvm::write_barriers::announced>>>(directory, how);
}

std::unique_ptr<contender> make_heap_cards(const std::filesystem::path& directory, const configuration& how) {
  return std::make_unique<object_contender<announced_world<rvm::write_barriers::cards>>>(directory, how);
}

}  // namespace tenure::bench::oo7
