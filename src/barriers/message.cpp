// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "barriers/message.hpp"

#include <cstddef>

#include <unistd.h>

namespace tenure::barriers {

void say(const char* message) noexcept {
  std::size_t length = 0;
  while (message[length] != 0) ++length;
  if (write(STDERR_FILENO, message, length) < 0) return;  // nobody is left to be told
}

void give_up(const char* message) noexcept {
  say(message);
  _exit(127);
}

}  // namespace tenure::barriers
