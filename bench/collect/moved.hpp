// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store of which every fourth object is left, and what it takes to move these together.
#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/rounds.hpp"

namespace tenure::bench::collect {

enum class neighbours { near, anywhere };  // where the two objects lie that each refers to

// Makes it, moves the objects, looks at all of them. Size of an object: 64 or 1024 bytes.
template <std::size_t Size>
measurement move_together(const std::filesystem::path& directory, std::uint64_t objects, neighbours where);
extern template measurement move_together<64>(const std::filesystem::path&, std::uint64_t, neighbours);
extern template measurement move_together<1024>(const std::filesystem::path&, std::uint64_t, neighbours);

}  // namespace tenure::bench::collect
