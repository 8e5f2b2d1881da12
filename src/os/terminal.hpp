// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Whether somebody is looking.
#pragma once

#include <cstdio>

namespace tenure::os {

[[nodiscard]] bool is_terminal(std::FILE* file) noexcept;

}  // namespace tenure::os
