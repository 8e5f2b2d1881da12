// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Fields that do not persist: caches, handles, locks. Never logged; in every new process their bytes are zero; an abort gives
// them back the value that they had when the transaction began, if the object was persistent then. T's destructor does not run
// when a process ends. Threads as for a T: in persistent objects they are changed in write transactions like other fields.
#pragma once

#include <type_traits>
#include <utility>

namespace tenure {

// Whether bytes that are all zero are a value of T, as which it can be used and destroyed. Specialize it for other classes for
// which that is so: std::mutex of glibc, say.
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
    value_ = value;
    return *this;
  }
  transient& operator=(T&& value) {
    value_ = std::move(value);
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
