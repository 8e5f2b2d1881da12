// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Whether a file is a terminal.
#pragma once

#include <cstdio>

namespace tenure::os {

[[nodiscard]] bool is_terminal(std::FILE* file) noexcept;

}  // namespace tenure::os
