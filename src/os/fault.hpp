// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Faults on mapped memory. One handler for SIGSEGV and SIGBUS, installed when the first range is registered; it chains to
// the handler that was there before. It looks ranges up without locks, so it is safe in a signal handler.
//
// Today it only explains: a media error (SIGBUS) in a registered range, or any access from the child of a fork (where the
// range is not mapped), ends the process with a message that names the file and the offset, then goes on to the earlier
// handler or the default action.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenure::os {

// Registers [address, address+length) as a mapping of `name` from `offset` on, for as long as this object lives.
class fault_range {
 public:
  fault_range() = default;
  fault_range(const void* address, std::size_t length, const std::string& name, std::uint64_t offset);
  ~fault_range();
  fault_range(fault_range&& other) noexcept : slot_(other.slot_) { other.slot_ = -1; }
  fault_range& operator=(fault_range&& other) noexcept;

 private:
  int slot_ = -1;
};

}  // namespace tenure::os
