// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The ways in which a store can learn what was written [Hosking §5.2.2], and in which new objects become persistent [PM3 §5.1],
// for the benchmarks of objects.
#pragma once

#include <string>

#include <tenure/store.hpp>

namespace tenure::bench {

struct way {
  const char* setting;
  rvm::tracking_mechanism mechanism = rvm::tracking_mechanism::choose;
  rvm::write_barriers barriers = rvm::write_barriers::none;
  std::size_t card_size = 64;
  stabilization stabilize = stabilization::in_place;

  // These, but in this way.
  [[nodiscard]] store_options applied_to(store_options how) const {
    how.mechanism = mechanism;
    how.barriers = barriers;
    how.card_size = card_size;
    how.stabilize = stabilize;
    if (stabilize == stabilization::copying) {
      how.collection.roots = program_roots::handles;
      how.collection.quarantine = quarantine::none;
    }
    return how;
  }
};

namespace ways {

inline constexpr way chosen{"the library chooses"};
inline constexpr way traps{"each page is trapped", rvm::tracking_mechanism::traps};
inline constexpr way hot{"what was written stays open", rvm::tracking_mechanism::hot};
inline constexpr way notes{"the kernel's notes", rvm::tracking_mechanism::scan};
inline constexpr way copies{"private copies are compared", rvm::tracking_mechanism::private_copies};

constexpr way with(rvm::write_barriers how, const char* setting, std::size_t card_size = 64) {
  return {setting, rvm::tracking_mechanism::choose, how, card_size};
}
inline constexpr way announced = with(rvm::write_barriers::announced, "barriers; whole pages");
inline constexpr way cards_16 = with(rvm::write_barriers::cards, "barriers; cards of 16 bytes", 16);
inline constexpr way cards_64 = with(rvm::write_barriers::cards, "barriers; cards of 64 bytes", 64);
inline constexpr way cards_256 = with(rvm::write_barriers::cards, "barriers; cards of 256 bytes", 256);
inline constexpr way cards_1024 = with(rvm::write_barriers::cards, "barriers; cards of 1024 bytes", 1024);
inline constexpr way cards_4096 = with(rvm::write_barriers::cards, "barriers; cards of 4096 bytes", 4096);
inline constexpr way copying{"new objects are copied at commits", rvm::tracking_mechanism::choose,
                             rvm::write_barriers::none, 64, stabilization::copying};
inline constexpr way checking = with(rvm::write_barriers::checking, "barriers; all open pages");

}  // namespace ways

// Calls one(NAME, WORLD) for each, with the world in which it is used. A macro, for functions that are made of it.
// clang-format off
#define TENURE_BENCH_WAYS(one) \
  one(traps, heap_world) \
  one(hot, heap_world) \
  one(notes, heap_world) \
  one(copies, heap_world) \
  one(copying, heap_world) \
  one(announced, announced_world) \
  one(cards_16, announced_world) \
  one(cards_64, announced_world) \
  one(cards_256, announced_world) \
  one(cards_1024, announced_world) \
  one(cards_4096, announced_world)
// clang-format on

}  // namespace tenure::bench
