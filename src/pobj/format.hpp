// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a store has on the disk: docs/formats.md, "Persistent objects of pobj".
//
// The segment begins with a page that describes the store. After it, up to `end`, slots follow each other without gaps.
// A slot is a word and the bytes that the word describes. So the whole store is found by going from slot to slot, and
// nothing about free space must be stored [pobj.slot.chain].
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tenure::pobj {

// Bytes from the segment's start.
using position = std::uint64_t;

inline constexpr char store_magic[8] = {'T', 'E', 'N', 'U', 'P', 'O', 'B', 'J'};
inline constexpr std::uint32_t store_version = 1;
inline constexpr std::uint64_t segment_tag = 0x4a424f50554e4554;  // "TENUPOBJ"

//   offset size
//        0    8  magic
//        8    4  version
//       12    4  reserved
//       16    8  end         slots cover [4096, end)
//       24    8  executions  initializations so far, this one included
//       32  256  program     whose store it is, ends with a zero
//      288       reserved
struct store_header {
  char magic[8];
  std::uint32_t version, reserved;
  std::uint64_t end, executions;
  char program[256];
};
static_assert(sizeof(store_header) == 288 && offsetof(store_header, program) == 32);

inline constexpr position first_slot = 4096;

// The word before each slot: bits 0 to 33 size in bytes, 34 to 51 type, 52 to 63 serial.
struct slot_word {
  static constexpr unsigned size_bits = 34, type_bits = 18, serial_bits = 12;
  // The largest object: when it is freed, all bytes of its slot but the word are the size of a free slot.
  static constexpr std::uint64_t size_mask = (std::uint64_t{1} << size_bits) - 1, largest_size = size_mask - 7;
  static constexpr std::uint64_t type_free = (1U << type_bits) - 1, type_description = type_free - 1,
                                 type_static = type_free - 2, first_special = type_free - 15;

  std::uint64_t bits = 0;

  static constexpr slot_word of(std::uint64_t size, std::uint64_t type, std::uint64_t serial) {
    return {size | type << size_bits | serial << (size_bits + type_bits)};
  }
  [[nodiscard]] constexpr std::uint64_t size() const { return bits & size_mask; }
  [[nodiscard]] constexpr std::uint64_t type() const { return bits >> size_bits & type_free; }
  [[nodiscard]] constexpr std::uint64_t serial() const { return bits >> (size_bits + type_bits); }
  // The length of the whole slot. Used slots have at least 16 bytes [pobj.table.granule].
  [[nodiscard]] constexpr std::uint64_t length() const {
    return type() == type_free ? 8 + size() : 8 + std::max<std::uint64_t>(8, (size() + 7) / 8 * 8);
  }
};
static_assert(sizeof(slot_word) == 8);

// The largest length of a free slot, which is a multiple of 8.
inline constexpr std::uint64_t largest_free = std::uint64_t{1} << 33;

// A reference in an image, instead of an address. 0 is NULL. Usually it is the position of the target's image, with the
// serial of its slot: the serial reveals a reference to a slot that was freed and used again [pobj.reference.serial].
// If the target has no image, it is the address, and the execution in which the address is valid.
struct reference {
  static constexpr std::uint64_t address_flag = std::uint64_t{1} << 63;
  static constexpr unsigned position_bits = 51, address_bits = 48;

  std::uint64_t bits = 0;

  static constexpr reference to_image(position at, std::uint64_t serial) { return {at | serial << position_bits}; }
  static constexpr reference to_address(std::uint64_t address, std::uint64_t execution) {
    return {address_flag | (execution & 0x7fff) << address_bits | (address & ((std::uint64_t{1} << address_bits) - 1))};
  }
  [[nodiscard]] constexpr bool is_null() const { return bits == 0; }
  [[nodiscard]] constexpr bool is_address() const { return (bits & address_flag) != 0; }
  [[nodiscard]] constexpr position at() const { return bits & ((std::uint64_t{1} << position_bits) - 1); }
  [[nodiscard]] constexpr std::uint64_t serial() const { return bits >> position_bits & 0xfff; }
  [[nodiscard]] constexpr std::uint64_t address() const { return bits & ((std::uint64_t{1} << address_bits) - 1); }
  [[nodiscard]] constexpr std::uint64_t execution() const { return bits >> address_bits & 0x7fff; }
};

// A type's description, in a slot of type_description: this structure; `references` offsets in words, 4 bytes each;
// padding to 8; `transients` pairs of 8-byte offset and length; the name.
struct stored_type {
  std::uint32_t number, references, transients, name_length;
  std::uint64_t size;  // of an element; 0: the description is of the whole object
};
static_assert(sizeof(stored_type) == 24);

// A static variable, in a slot of type_static: this structure, the three texts one after the other, padding to 8, and
// the value. If `named`, `symbol` is a name that the program has given.
struct stored_static {
  std::uint32_t named, type, module_length, file_length, symbol_length, reserved;
  std::uint64_t offset, size;  // of the variable from the symbol; of the value
};
static_assert(sizeof(stored_static) == 40);

[[nodiscard]] constexpr std::uint64_t round_to_8(std::uint64_t n) { return (n + 7) / 8 * 8; }

}  // namespace tenure::pobj
