// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The program and its loaded shared libraries.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tenure::os {

// The part of a loaded module around `address` whose bytes cannot change while the module is loaded: a segment that is
// mapped read-only, or one that the loader has made read-only after relocation. Empty if there is none.
[[nodiscard]] std::span<const std::byte> constant_data_around(const void* address) noexcept;

// The path of the module in which `address` lies; "" if it lies in none. For the program, its path.
[[nodiscard]] std::string module_around(const void* address);

}  // namespace tenure::os
