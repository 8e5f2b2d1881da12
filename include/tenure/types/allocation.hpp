// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory of a store for containers. tenure::allocator and the library's own containers are built on it. The object heap
// defines these functions.
#pragma once

#include <cstddef>

#include <tenure/types/type.hpp>

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// Allocates zeroed memory for `count` > 0 values of a type. The memory is an object in the database that contains
// `near`, in any open store. If `near` is nullptr or in no database, it is in the default database of the store whose
// write transaction the thread has begun last, or else of the store that was opened last. Constructs nothing. Throws
// tenure::error: errc::closed if no store is open, errc::read_only, errc::out_of_memory if the database is full or
// `count` is impossible. Thread-safe.
[[nodiscard]] void* allocate(const type& of, std::size_t count, const void* near);

// Frees memory that allocate() has returned, when the transaction commits. nullptr does nothing. Persistent memory is
// freed only inside write transactions. Thread-safe.
void deallocate(void* memory) noexcept;

// Whether the container lies in one open store and its memory in another one, as that of a container does which was in no store when
// it got memory, and moves into a store now. Such memory cannot become persistent. Thread-safe.
[[nodiscard]] bool is_in_another_store(const void* container, const void* memory) noexcept;

#pragma GCC visibility pop

}  // namespace tenure::detail
