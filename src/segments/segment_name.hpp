// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The name of a segment in records.
#pragma once

#include <string>

#include "log/format.hpp"

namespace tenure::rvm {

struct segment_name {
  identity id{};
  bool raw = false;
  std::string path;  // absolute, or relative to the log's directory
};

}  // namespace tenure::rvm
