// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The exceptions that containers throw besides those of the standard library: tenure::error, made in the library.
#pragma once

#include <cstdint>

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// Throws errc::wrong_version: the entries of a hash map were placed by the hash function with the id `stored`, and the
// program's function has the id `own`.
[[noreturn, gnu::cold]] void refuse_hash_function(const void* map, std::uint64_t entries, std::uint32_t stored,
                                                  std::uint32_t own);

// Throws errc::damaged: `what` does not hold.
[[noreturn, gnu::cold]] void report_damaged_tree(const void* node, const char* what);
[[noreturn, gnu::cold]] void report_damaged_hash_map(const void* map, const char* what);

#pragma GCC visibility pop

}  // namespace tenure::detail
