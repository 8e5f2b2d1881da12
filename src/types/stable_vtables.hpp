// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Virtual functions in objects that outlive the process. A stored vtable pointer must mean the same in every process, but
// programs have their vtables elsewhere each time. So a database reserves a slot of its address range for each vtable pointer of
// each of its types, and every process that opens it fills the slot with a copy of its own vtable. Objects are stored with
// pointers into slots; calls through them cost what they always cost.
//
// In the Itanium C++ ABI all that is reached through a vtable pointer lies around the place that it points to: offsets of
// virtual bases and adjustments before it, one word each, then the distance to the object's start and the type_info at -16 and
// -8; the functions from 0 on. A copy must have all of that; what else is near is copied along and never used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tenure/type.hpp>

namespace tenure::types {

// Bytes of a slot, and of these before the place that vtable pointers point to. Room for 62 virtual bases and adjustments, and
// for 448 virtual functions.
inline constexpr std::size_t vtable_slot_size = 4096;
inline constexpr std::size_t vtable_slot_before = 512;

// The vtable pointer that means the slot.
[[nodiscard]] inline const void* word_of(const std::byte* slot) { return slot + vtable_slot_before; }

// Fills the slot with this process's vtable of the type's vtable pointer number `subobject`. The type must have operations.
void fill(std::byte* slot, const type& t, std::size_t subobject);

// Fills the slot for a type that this program lacks: whoever calls a virtual function gets a message with the type's name, and
// the process ends. dynamic_cast finds no class, except to void*. `offset`: of the vtable pointer in objects of the type.
void fill_with_stub(std::byte* slot, const std::string& name, std::uint64_t offset = 0);

}  // namespace tenure::types
