// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "worlds/pmemobj_world.hpp"

#include "oo7/object_contender.hpp"

namespace tenure::bench::oo7 {

#ifdef TENURE_HAVE_PMEMOBJ
std::unique_ptr<contender> make_pmemobj(const std::filesystem::path& directory, const configuration& how) {
  return std::make_unique<object_contender<pmemobj_world>>(directory, how);
}
#else
std::unique_ptr<contender> make_pmemobj(const std::filesystem::path&, const configuration&) { return nullptr; }
#endif

}  // namespace tenure::bench::oo7
