// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Fields that do not persist: caches, handles, locks. They are never logged. In every new process their bytes are zero.
// If the object was persistent when a transaction began, an abort restores the value that the field had then. T's
// destructor does not run when a process ends. Threads: as for a T. In persistent objects the fields are changed in
// write transactions, like other fields. Assignments to them are announced (barriers.hpp); what is written through
// references to their values is not.
#pragma once

#include <type_traits>
#include <utility>

#include <tenure/barriers.hpp>

namespace tenure {

// Whether bytes that are all zero are a valid T, which can be used and destroyed. Specialize it for other classes with
// this property, for example std::mutex of glibc.
template <class T>
struct zero_is_a_value : std::is_trivially_copyable<T> {};

// Behaves like a T.
template <class T>
class transient {
  static_assert(
      zero_is_a_value<T>::value,
      "tenure: a transient field is all zero bytes in a new process, which may be no valid object of this class: keep "
      "a pointer to it in the field, or specialize tenure::zero_is_a_value<T> if it is one");

 public:
  transient() : value_() {}
  transient(const T& value) : value_(value) {}
  transient(T&& value) : value_(std::move(value)) {}
  transient& operator=(const T& value) {
    change(value_) = value;
    return *this;
  }
  transient& operator=(T&& value) {
    change(value_) = std::move(value);
    return *this;
  }

  operator T&() { return value_; }
  operator const T&() const { return value_; }
  [[nodiscard]] T& get() { return value_; }
  [[nodiscard]] const T& get() const { return value_; }
  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T& operator->() requires std::is_pointer_v<T> { return value_; }
  const T& operator->() const requires std::is_pointer_v<T> { return value_; }
  T* operator->() requires(!std::is_pointer_v<T>) { return &value_; }
  const T* operator->() const requires(!std::is_pointer_v<T>) { return &value_; }

 private:
  T value_;
};

}  // namespace tenure
