// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Errors as the user sees them: the code is checked, the message is shown, and so is what it must name.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>

#include <tenure/error.hpp>

namespace tenure::support {

// Runs `act`, which must throw a tenure::error with this code whose message names all `parts`. Prints the message.
template <class Code, class Action>
void expect_error(Code code, std::initializer_list<std::string> parts, Action&& act) {
  const std::error_code expected = make_error_code(code);
  try {
    act();
  } catch (const error& thrown) {
    const std::string_view message = thrown.what();
    std::printf("    %s: %s\n", expected.category() == category() ? "error" : "system error", thrown.what());
    EXPECT_EQ(thrown.code(), expected) << thrown.code().message() << "; " << message;
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string_view::npos) << '"' << part << "\" is not in: " << message;
    return;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "an exception of another type: " << other.what();
    return;
  }
  ADD_FAILURE() << "no error; expected: " << expected.message();
}

}  // namespace tenure::support
