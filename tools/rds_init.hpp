// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rdsinit: makes a segment with a heap and a static region, for programs of the classic C interface.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace tenure::tools {

struct rds_init_arguments {
  bool force = false;  // no question is asked
  std::string log, data;
  // datalen saddr hlen slen nlists chunk, as numbers of any base; those that are missing are asked for.
  std::vector<std::string> numbers = {};
};

// Asks on `out` and reads answers from `in`. Returns the exit code. Initializes librvm: once in a process.
int rds_init(const rds_init_arguments& arguments, std::FILE* in, std::FILE* out);

}  // namespace tenure::tools
