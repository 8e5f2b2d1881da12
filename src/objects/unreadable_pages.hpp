// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages of a database's file that the disk does not give any more. Looking at them where they are mapped would be SIGBUS.
#pragma once

#include <cstdint>
#include <span>

#include "objects/database_state.hpp"

namespace tenure::heap {

// Those of the pages that cannot be read are zeros in this process from now on. `pages`: offsets of damaged ones. Nobody writes to
// the store meanwhile, nor later.
void replace_unreadable(const database_state& in, std::span<const std::uint64_t> pages);

}  // namespace tenure::heap
