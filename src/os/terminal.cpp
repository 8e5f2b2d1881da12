// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/terminal.hpp"

#include <unistd.h>

namespace tenure::os {

bool is_terminal(std::FILE* file) noexcept { return ::isatty(::fileno(file)) == 1; }

}  // namespace tenure::os
