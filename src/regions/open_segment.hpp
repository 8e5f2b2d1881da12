// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "regions/region_mapper.hpp"

namespace tenure::rvm {

class region_mapper::open_segment {
 public:
  open_segment(region_mapper& owner, const std::string& path, segment_table::use how)
      : owner_(owner), in_(owner.segments_.open(path, how)) {}
  ~open_segment() {
    try {
      owner_.close_unless_mapped(in_);
    } catch (...) {  // the segment stays marked, which its next opening under this log clears
    }
  }
  open_segment(const open_segment&) = delete;
  open_segment& operator=(const open_segment&) = delete;
  segment* operator->() const { return &in_; }
  segment& operator*() const { return in_; }

 private:
  region_mapper& owner_;
  segment& in_;
};

}  // namespace tenure::rvm
