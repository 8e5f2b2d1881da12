// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Records in which order the program uses the parts of a store that is only read (store_options::record_accesses).
#pragma once

#include <deque>
#include <string>

#include "objects/database_set.hpp"
#include "os/access_trace.hpp"
#include "os/file.hpp"

namespace tenure {

class access_recording {
 public:
  // From now on.
  explicit access_recording(const database_set& store);
  // Writes the file. Once, in the end.
  void write(os::disk& disk, const std::string& file) const;

 private:
  const database_set& store_;
  std::size_t unit_ = 0;
  std::deque<os::access_trace> traces_;  // one for each database
};

}  // namespace tenure
