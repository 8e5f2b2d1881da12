// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Drawn configurations ("swarm testing", Groce et al., ISSTA 2012): a random program meets more of the library if its thresholds
// and the set of its operations are drawn, too, than if all of them are always the usual ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include <tenure/store.hpp>

#include "support/drawn_limits.hpp"
#include "support/mechanisms.hpp"
#include "support/model.hpp"
#include "support/test_store.hpp"

namespace tenure::support {

// In heap_barriers_test the compiler announces the program's stores, and every store is opened with barriers.
#ifdef TENURE_TEST_BARRIERS
inline constexpr bool compiled_with_barriers = true;
inline const auto tested_mechanisms = ::testing::Values(rvm::tracking_mechanism::choose);
#else
inline constexpr bool compiled_with_barriers = false;
inline const auto tested_mechanisms = every_mechanism;
#endif

// No store goes unseen. `which` chooses how they are found.
inline void use_barriers(store_options& how, std::uint64_t which) {
  how.card_size = card_sizes[which / 3 % card_sizes.size()];
  if (!compiled_with_barriers) return;
  constexpr rvm::write_barriers all[] = {rvm::write_barriers::cards, rvm::write_barriers::announced,
                                         rvm::write_barriers::checking};
  how.barriers = all[which % 3];
  how.strict_tracking = false;
  how.memory.on_unseen_store = [](const rvm::unseen_store& each) {
    ADD_FAILURE() << each.segment_path << ": offset " << each.offset << ", length " << each.length << ": " << each.what;
  };
}

template <class T>
T one_of(rvm::testing::random_source& random, std::initializer_list<T> values) {
  return values.begin()[random.below(values.size())];
}

// Of a store on a simulated disk. `limits` outlives it.
inline store_options drawn_options(rvm::testing::random_source& random, sim::disk& disk, rvm::thresholds& limits) {
  store_options how;
  how.create.reservation = std::uint64_t{1} << 28;
  how.create.home = next_home(how.create.reservation);
  how.strict_tracking = random.one_in(2);
  how.tune.bulk = one_of<std::uint64_t>(random, {0, 16 << 10, 64 << 10, 512 << 10, 8 << 20});
  how.tune.refill = one_of<std::uint32_t>(random, {0, 25, 50, 80, 100});
  how.tune.typed_from = one_of<std::uint64_t>(random, {0, 256, 4096});
  how.tune.least_hole = one_of<std::uint64_t>(random, {16, 48, 128, 1024});
  how.tune.most_blocks = one_of<std::uint64_t>(random, {1, 2, 8, 64});
  how.tune.old_blocks_at_once = one_of<std::uint64_t>(random, {1, 4, 1024});
  how.memory.disk = &disk;
  how.memory.background = false;
  how.memory.log.size = one_of<std::uint64_t>(random, {64 << 10, 256 << 10, 1 << 20});
  how.memory.log.max_size = 256 << 20;
  how.memory.tune.truncation_threshold = one_of(random, {0.1, 0.5, 2.0});
  how.memory.tune.spool_limit = one_of<std::uint64_t>(random, {64 << 10, 1 << 20, 64 << 20});
  limits = rvm::testing::drawn_limits(random);
  how.memory.limits = &limits;
  how.memory.recovery_memory = std::max<std::uint64_t>(limits.least_recovery_memory, 1 << 20);
  if (random.one_in(8)) how.memory.archive = rvm::archive_options{};
  how.tune.headed = random.one_in(3);
  how.tune.marked_at_once = one_of<std::uint64_t>(random, {1, 5, 64});
  use_barriers(how, random.below(3 * card_sizes.size()));
  return how;
}

inline std::string text_of(const store_options& how) {
  return "mechanism " + std::to_string(static_cast<int>(how.mechanism)) + (how.strict_tracking ? ", strict" : "") +
         ", barriers " + std::to_string(static_cast<int>(how.barriers)) + " with cards of " +
         std::to_string(how.card_size) + ", bulk " + std::to_string(how.tune.bulk) + ", refill " +
         std::to_string(how.tune.refill) + ", typed " + std::to_string(how.tune.typed_from) + ", hole " +
         std::to_string(how.tune.least_hole) + ", blocks " + std::to_string(how.tune.most_blocks) +
         (how.tune.headed ? ", headed" : "") + ", old " + std::to_string(how.tune.old_blocks_at_once) + ", log " +
         std::to_string(how.memory.log.size) + ", threshold " + std::to_string(how.memory.tune.truncation_threshold) +
         ", spool " + std::to_string(how.memory.tune.spool_limit) + (how.memory.archive ? ", archive" : "");
}

}  // namespace tenure::support
