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

// Writes the bytes that are stored for the part if `bytes` are the object's in memory: without transient fields, which are left as they
// are. Throws errc::cannot_persist if a plain pointer leads to no object of the store, or to one of which another transaction
// has an exclusive lock; or if a pointer or a ref leads to one that the transaction has destroyed [cache.making.destroyed.refs].
void stored_form(open_transaction& tx, const object_part& part, const std::byte* bytes, const object_table& objects,
                 const open_databases& databases, std::span<std::byte> to);
// Appends where the memory of an announced object differs from what it was. What is the same in memory is stored as it was, so the
// rest needs no conversion: of a large array, few elements.
void add_changed_parts(cached_object& object, std::vector<object_part>& to);

struct byte_range {
  std::uint64_t offset, length;
};
// Transient fields of `now` become what they were: they do not count. Both in stored form.
void give_back_transients(const cached_object& object, std::span<const std::byte> before, std::span<std::byte> now);
// Appends where bytes of equal length differ. [cache.commit.difference]
void add_differences(std::span<const std::byte> before, std::span<const std::byte> now, std::vector<byte_range>& to);

// A changed object may have got plain pointers to others.
void unite_with_targets(const object_part& part, const object_table& objects);
// Its refs to objects in memory become identifiers: the program may have made one of a pointer.
void unswizzle(const object_part& part, const object_table& objects);

}  // namespace tenure::cache
