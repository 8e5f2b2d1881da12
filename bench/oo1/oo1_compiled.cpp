// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The same program, compiled with barriers in laboratory_oo1; otherwise there is none.
#include "oo1/contender.hpp"

#ifdef TENURE_COMPILED_BARRIERS
#include "worlds/compiled_world.hpp"
#include "worlds/with_way.hpp"

#include "oo1/objects.hpp"

namespace tenure::bench::oo1 {

#define MAKE(NAME, WAY)                                                                               \
  std::unique_ptr<contender> make_compiled##NAME(const std::filesystem::path& directory, int parts) { \
    return std::make_unique<with_way<object_contender<compiled_world>>>(ways::WAY, directory, parts); \
  }
MAKE(, announced)
MAKE(_cards, cards_64)
#undef MAKE

}  // namespace tenure::bench::oo1
#else
namespace tenure::bench::oo1 {
std::unique_ptr<contender> make_compiled(const std::filesystem::path&, int) { return nullptr; }
std::unique_ptr<contender> make_compiled_cards(const std::filesystem::path&, int) { return nullptr; }
}  // namespace tenure::bench::oo1
#endif
