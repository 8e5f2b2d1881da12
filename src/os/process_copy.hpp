// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A copy of this process's memory as it is at one moment: a child that looks at it while the process goes on. It is made
// without the C library's fork, which runs the program's handlers and takes malloc's lock. Nobody hears of its end: it sends no
// signal, and the program's wait() does not see it. It has none of the program's files open [os.copy.silent].
#pragma once

#include <cstddef>
#include <utility>

namespace tenure::os {

class process_copy {
 public:
  process_copy() = default;
  ~process_copy() { end(); }
  process_copy(const process_copy&) = delete;
  process_copy& operator=(const process_copy&) = delete;

  // Runs f(of) in the copy, where only this thread goes on. f makes system calls and writes to shared memory; it may not
  // allocate memory or take locks. Returns false if there can be no copy: why_not() is the errno. Neither allocates nor locks.
  [[nodiscard]] bool start(void (*f)(void* of), void* of) noexcept;
  // Waits until f has returned, but not for longer than so many seconds. Returns whether it has.
  [[nodiscard]] bool wait(int seconds) noexcept;
  // Ends the copy, whatever it does.
  void end() noexcept;

  [[nodiscard]] int why_not() const noexcept { return error_; }

 private:
  int process_ = 0;  // 0: none
  int error_ = 0;
};

// Memory that the process and its copies share: what one writes the other reads. All zeros. Costs what is touched.
class shared_memory {
 public:
  shared_memory() = default;
  explicit shared_memory(std::size_t length);
  shared_memory(shared_memory&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  shared_memory& operator=(shared_memory&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(length_, other.length_);
    return *this;
  }
  ~shared_memory();
  [[nodiscard]] std::byte* data() const noexcept { return at_; }
  [[nodiscard]] std::size_t size() const noexcept { return length_; }

 private:
  std::byte* at_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace tenure::os
