// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Lists of objects' addresses, which leave none behind.
#pragma once

#include <functional>
#include <unordered_set>
#include <vector>

#include "objects/block_map.hpp"
#include "os/cleared_memory.hpp"

namespace tenure::heap {

using address_set = std::unordered_set<address, std::hash<address>, std::equal_to<>, os::clearing_allocator<address>>;
template <class T>
using address_list = std::vector<T, os::clearing_allocator<T>>;

}  // namespace tenure::heap
