// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The two calls of mmap that take an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenure::os {

// mmap(2) with MAP_PRIVATE | MAP_NORESERVE | `flags`. If `at` is nullptr, anywhere; otherwise exactly there, and never
// over an existing mapping: then it throws errc::address_taken with the name of that mapping. `name` says what will be
// mapped, for messages.
[[nodiscard]] void* map_at(void* at, std::size_t length, int protection, int flags, int descriptor,
                           std::uint64_t offset, const std::string& name);
// The same, but replaces the mapping at `at`, which the caller must own.
void map_over(void* at, std::size_t length, int protection, int flags, int descriptor, std::uint64_t offset,
              const std::string& name);

}  // namespace tenure::os
