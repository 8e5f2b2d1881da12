// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/region.hpp"

#include <cstring>

#include "os/virtual_memory.hpp"
#include "regions/region_tracker.hpp"

namespace tenure::rvm {

region_state::region_state() = default;
region_state::~region_state() = default;

void region_state::make_shadow() {
  if (backed_by_file) {
    shadow = static_cast<std::byte*>(in->file().map_private(nullptr, in->data_offset() + offset, capacity, true));
  } else {
    shadow = static_cast<std::byte*>(os::map_anonymous(nullptr, capacity));
    std::memcpy(shadow, base, length);
  }
  os::exclude_from_fork(shadow, capacity);
}

}  // namespace tenure::rvm
