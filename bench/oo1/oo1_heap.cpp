// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "worlds/announced_world.hpp"
#include "worlds/heap_world.hpp"

#include "oo1/objects.hpp"

namespace tenure::bench::oo1 {

std::unique_ptr<contender> make_heap(const std::filesystem::path& directory, int parts) {
  return std::make_unique<object_contender<heap_world>>(directory, parts);
}

std::unique_ptr<contender> make_heap_announced(const std::filesystem::path& directory, int parts) {
  return std::make_unique<object_contender<announced_world<rvm::write_barriers::announced>>>(directory, parts);
}

std::unique_ptr<contender> make_heap_cards(const std::filesystem::path& directory, int parts) {
  return std::make_unique<object_contender<announced_world<rvm::write_barriers::cards>>>(directory, parts);
}

}  // namespace tenure::bench::oo1
