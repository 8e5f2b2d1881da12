// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Describes objects and addresses in words, for messages.
#pragma once

#include <string>

#include "objects/database_set.hpp"

namespace tenure::heap {

// "package at 0x200000000010", or "an array of 7 package* at ...".
[[nodiscard]] std::string object_text(const database_set& store, address object);
// ".depends[3].name": the field of the object that contains the byte.
[[nodiscard]] std::string field_text(const database_set& store, address object, std::uint64_t offset);
// Where an address outside of the store lies: "on the stack, ", "in memory of malloc, ", "in ./program, ". Empty if
// unknown.
[[nodiscard]] std::string describe_address(const void* at);

}  // namespace tenure::heap
