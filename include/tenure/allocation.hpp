// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory of the store for containers: what tenure::allocator and the library's own containers are built on. Defined by the
// object heap.
#pragma once

#include <cstddef>

#include <tenure/type.hpp>

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// Zeroed memory for `count` > 0 values of a type, an object of its own in the database that `near` is in, of whatever open store.
// If that is nullptr or in none: in the default database of the store whose write transaction the thread has begun last, else of
// the store that was opened last. Nothing is constructed. Throws tenure::error:
// errc::closed where there is no store, errc::read_only, errc::out_of_memory where the database is full or `count` makes no
// sense. Thread-safe.
[[nodiscard]] void* allocate(const type& of, std::size_t count, const void* near);

// Gives back what allocate() returned, at commit. nullptr does nothing. Thread-safe. Persistent memory is given back inside
// write transactions only.
void deallocate(void* memory) noexcept;

#pragma GCC visibility pop

}  // namespace tenure::detail
