// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Who declares ranges in regions: transactions, which lie above.
#pragma once

#include <cstddef>

#include <tenure/rvm/options.hpp>

#include "records/page_references.hpp"

namespace tenure::rvm {

struct region_state;

class region_users {
 public:
  // How many open transactions use the region.
  [[nodiscard]] virtual std::size_t users_of(const region_state& what) const = 0;
  // The pages on which open transactions have declared ranges.
  [[nodiscard]] virtual page_set referenced_pages() = 0;
  // The calling thread is about to write to these bytes of the region, which says so: declares them in the thread's
  // transaction. Ends the process if the old value cannot be saved, because the store cannot be stopped.
  virtual void declare_store(region_state& in, std::byte* at, std::size_t length, write_barriers how) noexcept = 0;

 protected:
  ~region_users() = default;
};

}  // namespace tenure::rvm
