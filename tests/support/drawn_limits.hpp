// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Configurations drawn at random, so that what takes much memory or time with the usual ones happens in small tests too.
#pragma once

#include "records/thresholds.hpp"
#include "support/model.hpp"

namespace tenure::rvm::testing {

// Each threshold is the usual one half of the time, else a small one.
[[nodiscard]] thresholds drawn_limits(random_source& random);
// The layout with such thresholds, with little memory for recovery, and some with an archive.
[[nodiscard]] layout drawn_layout(layout from, random_source& random);

}  // namespace tenure::rvm::testing
