// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "oo1/objects.hpp"
#include "worlds/plain_world.hpp"

namespace tenure::bench::oo1 {

std::unique_ptr<contender> make_plain(const std::filesystem::path& directory, int parts) {
  return std::make_unique<object_contender<plain_world>>(directory, parts);
}
std::unique_ptr<contender> make_plain_shuffled(const std::filesystem::path& directory, int parts) {
  return std::make_unique<object_contender<plain_world, creation_order::shuffled>>(directory, parts);
}

}  // namespace tenure::bench::oo1
