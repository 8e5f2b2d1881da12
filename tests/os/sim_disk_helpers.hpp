// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Short ways to say things in the tests of the simulated disk.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "os/os_test_support.hpp"
#include "sim/disk.hpp"
#include "tenure/error.hpp"

namespace tenure::sim {

using os::as_bytes, os::read_text;

inline std::vector<std::byte> filled(std::size_t length, char with) {
  return std::vector<std::byte>(length, static_cast<std::byte>(with));
}

inline std::string as_text(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

inline void write_durably(os::file& file, std::uint64_t offset, os::const_bytes from) {
  const std::array<os::const_bytes, 1> all{from};
  file.write_durably_at(offset, all);
}

// The errno that the action throws as tenure::error; 0 if it throws nothing.
template <class Action>
int errno_of(Action act) {
  try {
    act();
  } catch (const error& thrown) {
    EXPECT_EQ(thrown.code().category(), std::generic_category());
    return thrown.code().value();
  }
  return 0;
}

template <class Action>
bool loses_power(Action act) {
  try {
    act();
  } catch (const power_failure&) {
    return true;
  }
  return false;
}

// What a file can be found to be after crashes with many seeds.
inline std::set<std::string> outcomes(const disk& from, const std::string& path, policy what = policy::random,
                                      std::uint64_t seeds = 400) {
  std::set<std::string> found;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto left = from.crash(seed, what);
    const auto names = left->names();
    const bool there = std::find(names.begin(), names.end(), path) != names.end();
    found.insert(there ? as_text(left->current_bytes(path)) : "(none)");
  }
  return found;
}

inline std::string after(const disk& from, const std::string& path, policy what) {
  return as_text(from.crash(1, what)->current_bytes(path));
}

}  // namespace tenure::sim
