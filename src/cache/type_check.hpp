// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Whether a ref<T> leads to a T.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenure/type.hpp>

#include "cache/stored_types.hpp"

namespace tenure::cache {

// Whether the object, or array of objects, of the type `in` has a `declared` at this offset: the object itself, an element, a
// member, or a base. The object is in memory, with this process's vtable pointers.
[[nodiscard]] bool contains_at(const type& in, const std::byte* object, std::uint64_t offset, const type& declared);

// Whether the type has a bool at this offset.
[[nodiscard]] bool has_bool_at(const type& in, std::uint64_t offset);

// A program may have a class twice under one name, once with refs and once with plain pointers. Throws errc::wrong_type if the
// object is in memory as one of them, and is to be used as the other.
void require_one_description(const bound_type& in_memory, const type& declared);

}  // namespace tenure::cache
