// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Members that announce each assignment (barriers.hpp), so that the compiler finds the ones that nobody announces:
//
//     struct part {
//       tenure::field<int> weight;
//       tenure::field<part*> next;
//       tenure::field<tenure::string> name;
//     };
//     p->weight += 3;
//     p->name.change().append("!");
//
// A field<T> reads like a const T, and cannot be changed without an announcement. It has T's size and alignment, and the
// store describes it as a T: a member T can become a field<T>, and back, with the same schema. (As an argument of another
// template, as in vector<field<T>>, it is another type.) Constructors announce nothing, like those of a T: they write to
// new memory. Threads and exceptions: as for a T.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <tenure/barriers.hpp>

namespace tenure {

template <class T>
class field {
  static_assert(std::is_object_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T> && !std::is_array_v<T>,
                "tenure: a field is a value that can be assigned to: for an array use std::array");

 public:
  using value_type = T;

  field() noexcept(std::is_nothrow_default_constructible_v<T>) : value_() {
    static_assert(sizeof(field) == sizeof(T) && alignof(field) == alignof(T) &&
                  std::is_standard_layout_v<field> == std::is_standard_layout_v<T>);
  }
  field(const T& value) noexcept(std::is_nothrow_copy_constructible_v<T>) : value_(value) {}
  field(T&& value) noexcept(std::is_nothrow_move_constructible_v<T>) : value_(std::move(value)) {}
  field(const field&) = default;
  field(field&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : value_(std::move(other.moved_from())) {}
  ~field() = default;

  field& operator=(const T& value) noexcept(std::is_nothrow_copy_assignable_v<T>) {
    change() = value;
    return *this;
  }
  field& operator=(T&& value) noexcept(std::is_nothrow_move_assignable_v<T>) {
    change() = std::move(value);
    return *this;
  }
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): T's assignment handles it
  field& operator=(const field& other) noexcept(std::is_nothrow_copy_assignable_v<T>) { return *this = other.value_; }
  field& operator=(field&& other) noexcept(std::is_nothrow_move_assignable_v<T>) {
    return *this = std::move(other.moved_from());
  }

  operator const T&() const noexcept { return value_; }
  [[nodiscard]] const T& get() const noexcept { return value_; }
  // Of a pointer: what it points to, which is no part of the field.
  const T& operator->() const noexcept requires std::is_pointer_v<T> { return value_; }
  const T* operator->() const noexcept requires(!std::is_pointer_v<T>) { return __builtin_addressof(value_); }

  // Announces a change of the value. The reference is for changes in the same transaction.
  [[nodiscard]] T& change() noexcept { return tenure::change(value_); }

  template <class U>
  field& operator+=(const U& by) requires requires(T& value) {
    value += by;
  }
  {
    change() += by;
    return *this;
  }
  template <class U>
  field& operator-=(const U& by) requires requires(T& value) {
    value -= by;
  }
  {
    change() -= by;
    return *this;
  }
  template <class U>
  field& operator*=(const U& by) requires requires(T& value) {
    value *= by;
  }
  {
    change() *= by;
    return *this;
  }
  template <class U>
  field& operator/=(const U& by) requires requires(T& value) {
    value /= by;
  }
  {
    change() /= by;
    return *this;
  }
  template <class U>
  field& operator%=(const U& by) requires requires(T& value) {
    value %= by;
  }
  {
    change() %= by;
    return *this;
  }
  template <class U>
  field& operator&=(const U& by) requires requires(T& value) {
    value &= by;
  }
  {
    change() &= by;
    return *this;
  }
  template <class U>
  field& operator|=(const U& by) requires requires(T& value) {
    value |= by;
  }
  {
    change() |= by;
    return *this;
  }
  template <class U>
  field& operator^=(const U& by) requires requires(T& value) {
    value ^= by;
  }
  {
    change() ^= by;
    return *this;
  }
  template <class U>
  field& operator<<=(const U& by) requires requires(T& value) {
    value <<= by;
  }
  {
    change() <<= by;
    return *this;
  }
  template <class U>
  field& operator>>=(const U& by) requires requires(T& value) {
    value >>= by;
  }
  {
    change() >>= by;
    return *this;
  }
  // Templates: clang looks at what another member requires as soon as there is a field, when the class that T points to may be
  // incomplete.
  template <class U = T>
  field& operator++() requires requires(U& value) {
    ++value;
  }
  {
    ++change();
    return *this;
  }
  template <class U = T>
  field& operator--() requires requires(U& value) {
    --value;
  }
  {
    --change();
    return *this;
  }
  template <class U = T>
  T operator++(int) requires requires(U& value) {
    value++;
  }
  { return change()++; }
  template <class U = T>
  T operator--(int) requires requires(U& value) {
    value--;
  }
  { return change()--; }

 private:
  T& moved_from() noexcept {
    if constexpr (std::is_trivially_copyable_v<T>)
      return value_;
    else
      return change();
  }

  T value_;
};

namespace detail {

// A type without the field around it.
template <class T>
struct without_field {
  using type = T;
};
template <class T>
struct without_field<field<T>> : without_field<T> {};
template <class T>
struct without_field<const field<T>> : without_field<const T> {};
template <class T>
inline constexpr bool is_field = !std::is_same_v<typename without_field<T>::type, T>;

}  // namespace detail
}  // namespace tenure
