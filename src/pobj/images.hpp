// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Copies between memory and images. Bytes are the same in both, references are not: an image refers to other images by
// their positions. So no image must be written again when objects get other addresses [pobj.reference.position]. The
// store's lock is held.
#pragma once

#include <cstdint>
#include <span>

#include <span>

#include "pobj/transaction.hpp"

namespace tenure::pobj {

// Memory and the place of its image: those of an object, or of a static variable.
struct stored_memory {
  std::byte* memory;
  position image;
  std::uint64_t size;
  const type_description& type;
};
[[nodiscard]] inline stored_memory stored(store& in, object o) {
  return {o.handle, o.header().slot + 8, o.header().size, in.types.of(o)};
}

// The image of a pointer. `transient`: the object to which it points, if that object has no image.
[[nodiscard]] reference encode(const store& in, std::uint64_t word, object* transient = nullptr);
// The pointer that a reference means in this process; 0 if there is none. If `report` is given, it counts these.
[[nodiscard]] std::uint64_t decode(const store& in, reference r, pobj_report* report = nullptr);

// Throws POBJ_EUNTYPED if a handle lies in [from, to) where the type has no reference.
void check_typed(const store& in, const stored_memory& m, std::uint64_t from, std::uint64_t to);
// Updates [from, to) of the image. Writes only bytes that differ.
void write_image(transaction& t, const stored_memory& m, std::uint64_t from, std::uint64_t to);
// Copies the image back to memory, except transient bytes. `report` is as for decode.
void read_image(const store& in, const stored_memory& m, pobj_report* report = nullptr);
// The same, when an inner level is undone. What refers to an object that an outer level has made transient, and to which it still
// referred when the inner one began, does so again: an abort of the outer level does not know of it [pobj.inner.taken].
void read_image(const store& in, const stored_memory& m, std::span<const transaction::placed> taken);
// The object gets the type `to`: some words become references, and others cease to be references. Changes the image
// accordingly. If it throws, nothing has changed.
void convert_words(transaction& t, const stored_memory& m, const type_description& to);

// Updates an object's image, strict or not. Does nothing for a transient object.
void update(transaction& t, object o, std::uint64_t from, std::uint64_t to);

// Makes an object persistent, as it is.
void persistify(transaction& t, object o);

}  // namespace tenure::pobj
