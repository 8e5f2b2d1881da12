// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Lists of objects' addresses, which leave none behind [heap.collection.addresses].
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_set>

#include "objects/block_map.hpp"
#include "os/cleared_memory.hpp"

namespace tenure::heap {

using address_set = std::unordered_set<address, std::hash<address>, std::equal_to<>, os::clearing_allocator<address>>;
template <class T>
using address_list = os::cleared_vector<T>;

// An address that is kept for long, and looks like no pointer.
class unseen_address {
 public:
  unseen_address(address at = 0) noexcept : complement_(~at) {}
  operator address() const noexcept { return ~complement_; }
  unseen_address& operator+=(std::uint64_t bytes) noexcept { return *this = *this + bytes; }

 private:
  address complement_;
};

}  // namespace tenure::heap
