// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a system tells of itself, by name: "log-write-ms", "stabilized-objects/atomic_part". Empty where it tells nothing.
// Names for OO1: running-ms, retrieving-ms, old-objects-ms, new-objects-ms, log-write-ms, other-ms. For OO7, by type:
// stabilized-objects/TYPE, stabilized-bytes/TYPE, and of those, only for an ambiguous root, ambiguous-objects/TYPE,
// ambiguous-bytes/TYPE.
#pragma once

#include <map>
#include <string>

namespace tenure::bench {

using breakdown_counts = std::map<std::string, double>;

}  // namespace tenure::bench
