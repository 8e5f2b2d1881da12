// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pointers to objects of a store that a collection knows exactly, wherever they are.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace tenure {

namespace detail {

struct handles;

#pragma GCC visibility push(default)  // libtenure.so exports it

// In the list of all handles of the process.
class handle_base {
 protected:
  explicit handle_base(void* to) noexcept;
  handle_base(const handle_base& other) noexcept : handle_base(other.get()) {}
  handle_base& operator=(const handle_base& other) noexcept {
    if (this != &other) set(other.get());
    return *this;
  }
  ~handle_base();
  [[nodiscard]] void* get() const noexcept { return to_; }
  void set(void* to) noexcept;

 private:
  friend handles;
  void* to_;
  handle_base *before_, *next_;
};

#pragma GCC visibility pop

}  // namespace detail

// A pointer to an object of any store, or nullptr. As long as it is there, no collection takes the object, nor what it refers
// to. Needed where the pointer is otherwise nowhere as such: while it is compressed, combined with other bits, or given to the
// kernel. And with program_roots::handles for every object that the program keeps between transactions. It is for the program's
// own memory, not for objects of a store. Different handles may be used by different threads at once.
template <class T>
class handle : private detail::handle_base {
 public:
  handle() noexcept : handle_base(nullptr) {}
  handle(std::nullptr_t) noexcept : handle_base(nullptr) {}
  handle(T* to) noexcept : handle_base(const_cast<void*>(static_cast<const void*>(to))) {}
  handle& operator=(T* to) noexcept {
    set(const_cast<void*>(static_cast<const void*>(to)));
    return *this;
  }

  [[nodiscard]] T* get() const noexcept { return static_cast<T*>(handle_base::get()); }
  [[nodiscard]] std::add_lvalue_reference_t<T> operator*() const noexcept { return *get(); }  // T may be void
  T* operator->() const noexcept { return get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return get() != nullptr; }
  friend bool operator==(const handle& a, const handle& b) noexcept { return a.get() == b.get(); }
  friend bool operator==(const handle& a, const T* b) noexcept { return a.get() == b; }
};

}  // namespace tenure
