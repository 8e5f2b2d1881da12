// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tenure::barriers {

// To stderr, without anything of libc that could be interposed.
void say(const char* message) noexcept;
// The same; then the program ends.
[[noreturn]] void give_up(const char* message) noexcept;

}  // namespace tenure::barriers
