// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What may be done with a file, or with memory.
#pragma once

namespace tenure::os {

enum class access { read_only, read_write };

}  // namespace tenure::os
