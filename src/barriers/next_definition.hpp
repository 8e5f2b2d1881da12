// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The function whose place one of ours takes: the next definition of the name, in a shared library.
#pragma once

#include <atomic>

#include <dlfcn.h>

#include "barriers/message.hpp"

namespace tenure::barriers {

template <class Function>
class next_definition {
 public:
  constexpr explicit next_definition(const char* name) : name_(name) {}

  template <class... Arguments>
  auto operator()(Arguments... arguments) {
    Function* found = known();
    if (found == nullptr) found = find();
    return found(arguments...);
  }

  // nullptr: not looked for yet.
  [[nodiscard]] Function* known() const { return found_.load(std::memory_order_relaxed); }

  Function* find() {
    auto* const found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    if (found == nullptr) {
      say("tenure: libc or libstdc++ does not have ");
      say(name_);
      give_up(", for which a program with barriers has asked\n");
    }
    found_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  const char* name_;
  std::atomic<Function*> found_{nullptr};
};

}  // namespace tenure::barriers
