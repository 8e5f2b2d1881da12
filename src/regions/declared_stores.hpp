// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Announced stores to a region whose ranges are declared: the announcement is the declaration, to the byte, so that none
// can be forgotten [RVM §8; rvm.barriers.declared].
#pragma once

#include <cstddef>

#include <tenure/rvm/options.hpp>

#include "regions/announced_stores.hpp"
#include "regions/region.hpp"
#include "regions/region_users.hpp"

namespace tenure::rvm {

// Lives as long as its region's state, because an announcement may be in it.
class declared_stores final : public store_listener {
 public:
  declared_stores(region_state& in, region_users& by, write_barriers how) : in_(in), by_(by), how_(how) {
    range_.begin(in.base, in.length, *this);
  }
  // The region has grown.
  void grow(std::size_t length) noexcept { range_.grow(length); }
  // Before the memory goes.
  void end() noexcept { range_.end(); }

  void store_announced(std::byte* at, std::size_t length) noexcept override {
    by_.declare_store(in_, at, length, how_);
  }

 private:
  region_state& in_;
  region_users& by_;
  const write_barriers how_;
  announced_range range_;
};

}  // namespace tenure::rvm
