// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Types objects word by word, for the calls that set fields. The store's lock is held.
#pragma once

#include "pobj/transaction.hpp"

namespace tenure::pobj {

// Makes the word at `offset` a reference, or no reference, in the object's type and its image. Throws POBJ_ETYPE if the
// object's type is a defined one and says otherwise.
void set_reference(transaction& t, object o, std::uint64_t offset, bool is_reference);
// Words with a byte in [from, to) are no references any more.
void unflag_range(transaction& t, object o, std::uint64_t from, std::uint64_t to);
// The address of a field that will hold a reference. Throws POBJ_ERANGE.
[[nodiscard]] std::uint64_t reference_offset(object o, const void* field);

}  // namespace tenure::pobj
