// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The way back from memory to what is stored, and what of an object a commit has to log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/databases.hpp"
#include "cache/object_table.hpp"

namespace tenure::cache {

// The bytes that are stored for the part if `bytes` are the object's in memory: without transient fields, which are left as they
// are. Throws errc::cannot_persist if a plain pointer leads to no object of the store, or to one that the transaction has
// destroyed.
[[nodiscard]] std::vector<std::byte> stored_form(const object_part& part, const std::byte* bytes,
                                                 const object_table& objects, const open_databases& databases);
// Appends where the memory of an announced object differs from what it was. What is the same in memory is stored as it was, so the
// rest needs no conversion: of a large array, few elements.
void add_changed_parts(cached_object& object, std::vector<object_part>& to);

struct byte_range {
  std::uint64_t offset, length;
};
// Where a part of a changed object differs from what it was, both in stored form. Transient fields of `now` become what they were: they
// do not count. [cache.commit.difference]
[[nodiscard]] std::vector<byte_range> differences(const cached_object& object, const std::vector<std::byte>& before,
                                                  std::vector<std::byte>& now);

// The same for bytes of equal length.
[[nodiscard]] std::vector<byte_range> differences(std::span<const std::byte> before, std::span<const std::byte> now);

// A changed object may have got plain pointers to others.
void unite_with_targets(const object_part& part, const object_table& objects);
// Its refs to objects in memory become identifiers: the program may have made one of a pointer.
void unswizzle(const object_part& part, const object_table& objects);

}  // namespace tenure::cache
