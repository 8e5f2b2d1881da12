// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Between memory and images: bytes are the same in both, references are not. An image refers to images, so that nothing of
// it need be written when the objects come to lie elsewhere [pobj.reference.position]. With the store's lock.
#pragma once

#include <cstdint>
#include <span>

#include "pobj/transaction.hpp"

namespace tenure::pobj {

// Memory and where its image is: an object's, or a static variable's.
struct stored_memory {
  std::byte* memory;
  position image;
  std::uint64_t size;
  const type_description& type;
};
[[nodiscard]] inline stored_memory stored(store& in, object o) {
  return {o.handle, o.header().slot + 8, o.header().size, in.types.of(o)};
}

// What a pointer is in an image; `transient`: the object without an image that it points to, if it does.
[[nodiscard]] reference encode(const store& in, std::uint64_t word, object* transient = nullptr);
// The pointer that a reference is in this process; 0 where there is none, which is counted in `report` if it is given.
[[nodiscard]] std::uint64_t decode(const store& in, reference r, pobj_report* report = nullptr);

// Throws POBJ_EUNTYPED if a handle lies in [from, to) where the type has no reference.
void check_typed(const store& in, const stored_memory& m, std::uint64_t from, std::uint64_t to);
// Brings [from, to) of the image up to date; writes what differs.
void write_image(transaction& t, const stored_memory& m, std::uint64_t from, std::uint64_t to);
// Brings memory back to the image, but for transient bytes. `report` as for decode.
void read_image(const store& in, const stored_memory& m, pobj_report* report = nullptr);
// Words become references, or are none any more: so must the image have them.
void convert_words(transaction& t, const stored_memory& m, const type_description& to);

// The update of an object, strict or not; nothing for a transient one.
void update(transaction& t, object o, std::uint64_t from, std::uint64_t to);

// Makes an object persistent, as it is.
void persistify(transaction& t, object o);

}  // namespace tenure::pobj
