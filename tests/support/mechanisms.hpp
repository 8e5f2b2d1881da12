// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Every means of finding modified pages, for tests that run with each.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>

#include <tenure/rvm/map_options.hpp>

namespace tenure::support {

inline constexpr std::array mechanisms = {
    rvm::tracking_mechanism::choose,   rvm::tracking_mechanism::traps, rvm::tracking_mechanism::growing_runs,
    rvm::tracking_mechanism::hot,      rvm::tracking_mechanism::scan,  rvm::tracking_mechanism::private_copies,
    rvm::tracking_mechanism::announced};
inline const auto every_mechanism = ::testing::ValuesIn(mechanisms);

// Of map_options::card_size.
inline constexpr std::array<std::size_t, 9> card_sizes = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

inline std::string mechanism_name(const ::testing::TestParamInfo<rvm::tracking_mechanism>& of) {
  switch (of.param) {
    case rvm::tracking_mechanism::choose: return "choose";
    case rvm::tracking_mechanism::traps: return "traps";
    case rvm::tracking_mechanism::growing_runs: return "growing_runs";
    case rvm::tracking_mechanism::hot: return "hot";
    case rvm::tracking_mechanism::scan: return "scan";
    case rvm::tracking_mechanism::private_copies: return "private_copies";
    case rvm::tracking_mechanism::announced: return "announced";
  }
  return "unknown";
}

}  // namespace tenure::support
