// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for lists of addresses, which is cleared when it is given back. What is left in free memory of malloc looks like
// pointers of the program to a collector, and keeps objects [heap.collection.addresses].
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenure::os {

template <class T>
struct clearing_allocator {
  using value_type = T;
  clearing_allocator() = default;
  template <class U>
  clearing_allocator(const clearing_allocator<U>&) noexcept {}
  [[nodiscard]] T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* at, std::size_t count) noexcept {
    std::memset(static_cast<void*>(at), 0, count * sizeof(T));
    asm volatile("" : : "r"(at) : "memory");  // or compilers leave it out
    std::allocator<T>().deallocate(at, count);
  }
  friend bool operator==(const clearing_allocator&, const clearing_allocator&) { return true; }
};

template <class T>
using cleared_vector = std::vector<T, clearing_allocator<T>>;

// Shortens a vector that keeps its memory.
template <class Vector>
void shorten(Vector& list, std::size_t size) noexcept {
  static_assert(std::is_trivially_copyable_v<typename Vector::value_type>);
  if (size >= list.size()) return;
  std::memset(static_cast<void*>(list.data() + size), 0, (list.size() - size) * sizeof(list[0]));
  list.resize(size);
}
template <class Vector>
void clear_all_of(Vector& list) noexcept {
  shorten(list, 0);
}

// Bytes that are copied from elsewhere, many at a time: a vector with such an allocator copies them one by one.
class cleared_bytes {
 public:
  cleared_bytes() = default;
  ~cleared_bytes() { give_back(); }
  cleared_bytes(cleared_bytes&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)),
        used_(std::exchange(other.used_, 0)) {}
  cleared_bytes& operator=(cleared_bytes&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(capacity_, other.capacity_);
    std::swap(used_, other.used_);
    return *this;
  }
  // Room for `size` bytes, in place of what there was.
  [[nodiscard]] std::byte* renew(std::size_t size) {
    if (size > capacity_) {
      give_back();
      at_ = std::allocator<std::byte>().allocate(size + size / 2);  // the next ones may be more
      capacity_ = size + size / 2;
    }
    used_ = std::max(used_, size);
    return at_;
  }
  [[nodiscard]] const std::byte* data() const noexcept { return at_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

 private:
  void give_back() noexcept {
    if (at_ == nullptr) return;
    std::memset(at_, 0, used_);
    asm volatile("" : : "r"(at_) : "memory");
    std::allocator<std::byte>().deallocate(std::exchange(at_, nullptr), std::exchange(capacity_, 0));
    used_ = 0;
  }

  std::byte* at_ = nullptr;
  std::size_t capacity_ = 0, used_ = 0;
};

// Overwrites what calls have left on the stack of the calling thread, which is the library's own: others may be small.
[[gnu::noinline]] inline void clear_unused_stack() noexcept {
  std::array<std::byte, 32 << 10> unused;
  std::memset(unused.data(), 0, unused.size());
  asm volatile("" : : "r"(unused.data()) : "memory");
}

}  // namespace tenure::os
