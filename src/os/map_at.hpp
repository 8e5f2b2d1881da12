// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The two calls of mmap that may be given an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenure::os {

// mmap(2) with MAP_PRIVATE | MAP_NORESERVE | `flags`. `at` nullptr: anywhere free; else exactly there, never over an
// existing mapping: throws errc::address_taken, naming what is there. `name` is what is mapped, for messages.
[[nodiscard]] void* map_at(void* at, std::size_t length, int protection, int flags, int descriptor,
                           std::uint64_t offset, const std::string& name);
// The same at `at`, in place of what is there, which must be the caller's own.
void map_over(void* at, std::size_t length, int protection, int flags, int descriptor, std::uint64_t offset,
              const std::string& name);

}  // namespace tenure::os
