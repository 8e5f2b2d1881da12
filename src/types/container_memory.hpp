// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for containers that are in no store that is mapped: stores in caches give it (src/cache), while there are any.
#pragma once

#include <atomic>
#include <cstddef>

#include <tenure/types/type.hpp>

namespace tenure::types {

class container_memory {
 public:
  // As detail::allocate. nullptr: the container is not in a cache, and the thread changes no store in one, or `is_free` is
  // false: it changes a store that is mapped.
  [[nodiscard]] virtual void* allocate(const type& of, std::size_t count, const void* near, bool is_free) = 0;
  // As detail::deallocate. false: it is not of this one.
  [[nodiscard]] virtual bool deallocate(void* array) noexcept = 0;

 protected:
  ~container_memory() = default;
};
inline std::atomic<container_memory*> memory_in_caches{nullptr};

}  // namespace tenure::types
