// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/region.hpp"

#include <cstring>

#include "log/invariant.hpp"
#include "os/virtual_memory.hpp"
#include "regions/declared_stores.hpp"
#include "regions/region_tracker.hpp"

namespace tenure::rvm {

region_state::region_state() = default;
region_state::~region_state() = default;

void region_state::make_shadow() {
  if (backed_by_file) {
    shadow = in->map(nullptr, offset, capacity, os::access::read_write);
  } else {
    shadow = static_cast<std::byte*>(os::map_anonymous(nullptr, capacity));
    std::memcpy(shadow, base, length);
  }
  os::exclude_from_fork(shadow, capacity);
}

void region_table::check() const {
  const std::byte* end = nullptr;
  for (const auto& r : all()) {
    if (r->owner == nullptr) continue;
    require_invariant(r->base >= end, "regions are in the order of their addresses, and disjoint");
    require_invariant(r->length <= r->capacity, "a region fits into its address space");
    require_invariant(r->in != nullptr, "a region that is mapped has a segment");
    end = r->base + r->capacity;
    if (r->tracker != nullptr) r->tracker->check();
  }
}

}  // namespace tenure::rvm
