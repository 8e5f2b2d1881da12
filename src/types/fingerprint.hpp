// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <tenure/type.hpp>

namespace tenure::types {

// The fingerprint of a type's structure. Its nested types have theirs already (docs/formats.md, "Fingerprints of
// types").
[[nodiscard]] std::uint64_t fingerprint_of(const type& t);

}  // namespace tenure::types
