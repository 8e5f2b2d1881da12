// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/answering_process.hpp"

#include <unistd.h>

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace {

using tenure::os::answering_process;

TEST(answering_processes, answer_one_question_after_the_other) {
  int asked = 0;
  answering_process there([&](std::string_view question) {
    return std::to_string(++asked) + ": " + std::string(question.size(), question.empty() ? ' ' : question[0]);
  });
  EXPECT_EQ(there.ask("aa"), "1: aa");
  EXPECT_EQ(there.ask(""), "2: ");
  EXPECT_EQ(there.ask(std::string(1 << 20, 'b')), "3: " + std::string(1 << 20, 'b'));
  EXPECT_EQ(asked, 0) << "it is another process";
}

TEST(answering_processes, tell_what_went_wrong) {
  answering_process there([](std::string_view question) -> std::string {
    if (question == "end") ::_exit(3);
    throw std::runtime_error("there is no answer to " + std::string(question));
  });
  for (const char* const question : {"one", "another"}) try {
      (void)there.ask(question);
      ADD_FAILURE() << "it answered";
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), std::string("there is no answer to ") + question);
    }
  EXPECT_THROW((void)there.ask("end"), std::runtime_error);
  EXPECT_THROW((void)there.ask("after it"), std::runtime_error);
}

}  // namespace
