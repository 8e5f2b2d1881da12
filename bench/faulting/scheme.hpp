// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The schemes that the object faulting experiments compare [Hosking Table 5.1].
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenure::bench::faulting {

// What a reference is while its target is not known to be in memory.
enum class references {
  direct,           // nothing else: everything is in memory
  identifiers,      // a tagged identifier (edge marking)
  fault_blocks,     // a pointer to a tagged block that stands for the target (node marking)
  protected_blocks  // the same, in pages that nobody may read: a trap takes the place of the check
};
// What comes into memory with an object that is faulted.
enum class granularity { object, logical_segment, physical_segment };
// When such a reference becomes a direct pointer.
enum class bypass {
  never,
  swizzling,  // when the object that has it comes into memory, if its target is there
  faulting    // and when its target comes into memory
};

struct scheme {
  references unswizzled;
  granularity faulted;
  bypass when;
  bool operator==(const scheme&) const = default;
};

// All valid combinations, in the order of the table. Those with protected blocks need a trap handler that changes registers,
// which exists for x86-64.
[[nodiscard]] std::span<const scheme> all_schemes();
// "id-never-object", "fb-fault-logical", "trap-fault-physical", "non-persistent".
[[nodiscard]] std::string name_of(const scheme& of);
// "tagged identifier; a physical segment at a time; direct when swizzled"
[[nodiscard]] std::string describe(const scheme& of);
// Throws if there is no such scheme here.
[[nodiscard]] const scheme& scheme_named(std::string_view name);

}  // namespace tenure::bench::faulting
