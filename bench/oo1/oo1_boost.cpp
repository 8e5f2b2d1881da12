// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "worlds/boost_world.hpp"

#include "oo1/objects.hpp"

namespace tenure::bench::oo1 {

#ifdef TENURE_HAVE_BOOST_INTERPROCESS
std::unique_ptr<contender> make_boost(const std::filesystem::path& directory, int parts) {
  return std::make_unique<object_contender<boost_world>>(directory, parts);
}
#else
std::unique_ptr<contender> make_boost(const std::filesystem::path&, int) { return nullptr; }
#endif

}  // namespace tenure::bench::oo1
