// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Typing objects word by word, for the calls that set fields. With the store's lock.
#pragma once

#include "pobj/transaction.hpp"

namespace tenure::pobj {

// The word at `offset` becomes a reference, or none any more, in the object's type and its image. Throws POBJ_ETYPE if the
// object's type is defined and says otherwise.
void set_reference(transaction& t, object o, std::uint64_t offset, bool is_reference);
// No word that has a byte in [from, to) is a reference any more.
void unflag_range(transaction& t, object o, std::uint64_t from, std::uint64_t to);
// Where a field is that is to hold a reference. Throws POBJ_ERANGE.
[[nodiscard]] std::uint64_t reference_offset(object o, const void* field);

}  // namespace tenure::pobj
