// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Who hears of announced stores (tenure/barriers.hpp).
#pragma once

#include <cstddef>

namespace tenure::rvm {

class store_listener {
 public:
  // A store to bytes of the range is about to happen. Any thread, also in a signal handler. The bytes lie in the range, but
  // for a listener that is just being removed.
  virtual void store_announced(std::byte* at, std::size_t length) noexcept = 0;

 protected:
  ~store_listener() = default;
};

// A range of memory whose stores a listener wants to hear of.
class announced_range {
 public:
  announced_range() = default;
  ~announced_range() { end(); }
  announced_range(const announced_range&) = delete;
  announced_range& operator=(const announced_range&) = delete;
  // Throws errc::bad_option if there are too many (a thousand).
  void begin(std::byte* base, std::size_t length, store_listener& to);
  // The range has so many bytes now, which are more.
  void grow(std::size_t length) noexcept;
  // Before the memory goes. The program must not write there any more.
  void end() noexcept;

 private:
  int slot_ = -1;
};

// From now on the listener hears of all announcements of memory that is in no range, until it is another one, or nullptr. It
// exists for as long as the process.
void listen_elsewhere(store_listener* to) noexcept;

// While one exists, the thread's stores are the library's own, which has declared them: functions of libc announce them, too,
// if the program interposes them.
class own_stores {
 public:
  own_stores() noexcept;
  ~own_stores();
  own_stores(const own_stores&) = delete;
  own_stores& operator=(const own_stores&) = delete;
  // Whether the calling thread has one.
  [[nodiscard]] static bool are_made() noexcept;
};

}  // namespace tenure::rvm
