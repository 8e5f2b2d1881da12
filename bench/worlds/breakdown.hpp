// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a system tells of itself, by name: "log-write-ms", "stabilized-objects/atomic_part". Empty where it tells nothing.
// Names for OO1: running-ms, retrieving-ms, old-objects-ms, new-objects-ms, log-write-ms, other-ms. By type: what became
// persistent, stabilized-objects/TYPE and stabilized-bytes/TYPE.
#pragma once

#include <map>
#include <string>

namespace tenure::bench {

using breakdown_counts = std::map<std::string, double>;

}  // namespace tenure::bench
