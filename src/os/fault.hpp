// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Faults on mapped memory. There is one handler for SIGSEGV and SIGBUS. It is installed when the first range is
// registered, and calls the handler that was installed before. It finds ranges without locks, so it is safe in a signal
// handler.
//
// Two faults end the process with a message that names the file and the offset: a media error (SIGBUS) in a registered
// range, and any access from the child of a fork, where the range is not mapped. Then the earlier handler or the
// default action runs. A write to a page of the range that is not writable calls the range's write_trap, if it has one.
// The write_trap may make the page writable and have the write repeated. Of ranges at one place, one has a trap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenure::os {

// Called in the signal handler for writes that the page's protection refused: by any thread, and by several at a time.
// All signals are blocked meanwhile. It may use lock-free atomics, a little stack, and system calls.
class write_trap {
 public:
  enum class answer {
    resume,   // the page is writable now: repeat the write
    stray,    // nobody may write there: end the process with a message that has the place and the stack
    refused,  // the mapping is for reading: the same, with a message that says so
  };
  virtual answer on_write(std::byte* at) noexcept = 0;
  // Called first, for accesses of every kind that the page's protection refused. Whether to repeat it.
  virtual bool on_access(std::byte* /*at*/, bool /*is_write*/) noexcept { return false; }

 protected:
  ~write_trap() = default;
};

// Registers [address, address+length) as a mapping of `name` from `offset` on, while this object lives.
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

// Whether faults in the range are handled. There is room for a thousand ranges.
[[nodiscard]] inline bool is_known(const fault_range& range) noexcept { return range.slot_ >= 0; }

// Unblocks SIGSEGV and SIGBUS for this thread: the kernel ends a process whose fault finds its signal blocked. A second
// call costs nothing.
void unblock_faults() noexcept;

}  // namespace tenure::os
