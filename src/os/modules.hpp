// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The program and the shared libraries that are loaded into this process.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tenure::os {

// The part of a loaded module around `address` whose bytes stay as they are while the module is loaded: a segment that is
// mapped read-only, or what the loader has made read-only after relocating it. Empty if there is none.
[[nodiscard]] std::span<const std::byte> constant_data_around(const void* address) noexcept;

// The path of the module that `address` lies in, "" if in none; the program's own is its path too.
[[nodiscard]] std::string module_around(const void* address);

}  // namespace tenure::os
