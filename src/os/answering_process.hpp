// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A child process that answers questions: for what cannot be in this process, because its addresses are taken here. It is made by
// a fork, and has what this process had then; only the thread that made it goes on. It ends with this object, or when the process ends.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tenure::os {

class answering_process {
 public:
  // `answer` is called in the child, for one question after the other. What it throws, ask() throws as a std::runtime_error of
  // the same text.
  explicit answering_process(const std::function<std::string(std::string_view question)>& answer);
  ~answering_process();
  answering_process(const answering_process&) = delete;
  answering_process& operator=(const answering_process&) = delete;

  // One thread at a time. Throws if the child has ended, too.
  [[nodiscard]] std::string ask(std::string_view question);

 private:
  int socket_ = -1;
  int process_ = 0;
};

}  // namespace tenure::os
