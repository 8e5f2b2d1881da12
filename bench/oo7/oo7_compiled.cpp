// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The same program, compiled with barriers in laboratory_oo7; otherwise there is none.
#include "oo7/contender.hpp"

#ifdef TENURE_COMPILED_BARRIERS
#include "worlds/compiled_world.hpp"
#include "worlds/with_way.hpp"

#include "oo7/object_contender.hpp"

namespace tenure::bench::oo7 {

#define MAKE(NAME, WAY)                                                                                              \
  std::unique_ptr<contender> make_compiled##NAME(const std::filesystem::path& directory, const configuration& how) { \
    return std::make_unique<with_way<object_contender<compiled_world>>>(ways::WAY, directory, how);                  \
  }
MAKE(, announced)
MAKE(_cards, cards_64)
#undef MAKE

}  // namespace tenure::bench::oo7
#else
namespace tenure::bench::oo7 {
std::unique_ptr<contender> make_compiled(const std::filesystem::path&, const configuration&) { return nullptr; }
std::unique_ptr<contender> make_compiled_cards(const std::filesystem::path&, const configuration&) { return nullptr; }
}  // namespace tenure::bench::oo7
#endif
