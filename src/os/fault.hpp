// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Faults on mapped memory. One handler for SIGSEGV and SIGBUS, installed when the first range is registered; it chains to
// the handler that was there before. It looks ranges up without locks, so it is safe in a signal handler.
//
// A media error (SIGBUS) in a registered range, or any access from the child of a fork (where the range is not mapped), ends
// the process with a message that names the file and the offset, then goes on to the earlier handler or the default action.
// A write to a page of the range that is not writable goes to the range's write_trap, if it has one, which may make the page
// writable and have the write done again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenure::os {

// Called in the signal handler, by any thread, by several at a time, for writes that the page's protection refused. All
// signals are blocked meanwhile. May use lock-free atomics, the stack (sparingly) and system calls.
class write_trap {
 public:
  enum class answer {
    resume,  // the page is writable now: do the write again
    stray,   // nobody should have written there: end the process with a message that says where, and the stack
  };
  virtual answer on_write(std::byte* at) noexcept = 0;

 protected:
  ~write_trap() = default;
};

// Registers [address, address+length) as a mapping of `name` from `offset` on, for as long as this object lives.
class fault_range {
 public:
  fault_range() = default;
  fault_range(const void* address, std::size_t length, const std::string& name, std::uint64_t offset,
              write_trap* trap = nullptr);
  ~fault_range();
  fault_range(fault_range&& other) noexcept : slot_(other.slot_) { other.slot_ = -1; }
  fault_range& operator=(fault_range&& other) noexcept;

 private:
  friend bool is_known(const fault_range& range) noexcept;
  int slot_ = -1;
};

// Whether its faults are handled: there is room for a thousand ranges.
[[nodiscard]] inline bool is_known(const fault_range& range) noexcept { return range.slot_ >= 0; }

// Lets this thread receive SIGSEGV and SIGBUS, if it has blocked them: the kernel ends a process whose fault finds its signal
// blocked. Costs nothing when it is called again.
void unblock_faults() noexcept;

}  // namespace tenure::os
