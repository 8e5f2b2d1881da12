// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Virtual functions in objects that outlive the process. A stored vtable pointer must mean the same in every process,
// but a program's vtables have other addresses in each. So a database reserves a slot of its addresses for each vtable
// pointer of each of its types, and every process that opens it copies its own vtables into the slots. Stored objects
// have pointers into slots. Calls through them cost what virtual calls always cost.
//
// In the Itanium C++ ABI everything that is reached through a vtable pointer lies around its target. Before it are the
// offsets of virtual bases and adjustments, one word each; then the distance to the object's start at -16, and the
// type_info at -8. The functions begin at 0. A copy must have all of these. Other bytes nearby are copied, too, and
// never used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tenure/type.hpp>

namespace tenure::types {

// The bytes of a slot, and the bytes of it before the target of vtable pointers. Room for 62 virtual bases and
// adjustments, and for 448 virtual functions.
inline constexpr std::size_t vtable_slot_size = 4096;
inline constexpr std::size_t vtable_slot_before = 512;

// The vtable pointer of the slot.
[[nodiscard]] inline const void* word_of(const std::byte* slot) { return slot + vtable_slot_before; }

// Fills the slot with this process's vtable for the type's vtable pointer number `subobject`. The type must have
// operations.
void fill(std::byte* slot, const type& t, std::size_t subobject);

// Fills the slot for a type that this program lacks. A call of a virtual function then prints a message with the type's
// name and ends the process. dynamic_cast finds no class, except to void*. `offset`: of the vtable pointer in objects
// of the type.
void fill_with_stub(std::byte* slot, const std::string& name, std::uint64_t offset = 0);

}  // namespace tenure::types
