// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Moves elements between the slots of a container. To relocate is to move an element to an empty slot and to destroy
// the old element. Empty slots are zero. The collector reads all slots of an array, and the remains of an element would
// look like a pointer.
//
// Stores to the memory of a container are announced before (barriers.hpp). Functions with `unheard` in their name, and
// `parked`, leave that to their callers.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include <tenure/barriers.hpp>
#include <tenure/types/detail/standard_parts.hpp>
#include <tenure/types/field.hpp>

namespace tenure {

// Whether a T can be relocated by copying its bytes and forgetting the old ones. True for trivially copyable types, for
// the containers of this library, and for pairs of such types. Specialise it for your own type if its objects do not
// refer to themselves. A class can also declare this with `using relocatable = itself;`, which derived classes do not
// inherit.
template <class T>
struct is_relocatable : std::is_trivially_copyable<T> {};
template <class T>
requires requires { typename T::relocatable; }
struct is_relocatable<T> : std::is_same<typename T::relocatable, T> {};
template <class A, class B>
struct is_relocatable<std::pair<A, B>> : std::bool_constant<is_relocatable<std::remove_const_t<A>>::value &&
                                                            is_relocatable<std::remove_const_t<B>>::value> {};
template <class T>
struct is_relocatable<field<T>> : is_relocatable<T> {};

namespace detail {

template <class T>
inline constexpr bool is_pair_with_const_first = false;
template <class K, class V>
inline constexpr bool is_pair_with_const_first<std::pair<const K, V>> = true;

// Whether relocating cannot throw.
template <class T>
struct relocates_safely : std::bool_constant<is_relocatable<T>::value || std::is_nothrow_move_constructible_v<T>> {};
template <class A, class B>
struct relocates_safely<std::pair<A, B>> : std::bool_constant<relocates_safely<std::remove_const_t<A>>::value &&
                                                              relocates_safely<std::remove_const_t<B>>::value> {};

// Whether empty slots are made zero. Numbers need not be zeroed, because they cannot be mistaken for pointers.
template <class T>
inline constexpr bool zeroes_empty_slots = !std::is_arithmetic_v<T> && !std::is_enum_v<T>;

template <class T>
void zero_unheard(T* first, std::size_t count) noexcept {
  if constexpr (zeroes_empty_slots<T>) {
    if (count != 0) std::memset(static_cast<void*>(first), 0, count * sizeof(T));
  }
}

// Destroys elements whose memory is given back next. Destructors may write to their objects.
template <class T>
void destroy_elements(T* first, std::size_t count) noexcept {
  if constexpr (!std::is_trivially_destructible_v<T>) announce(first, count);
  std::destroy_n(first, count);
}
template <class T>
void destroy_unheard(T* first, std::size_t count) noexcept {
  std::destroy_n(first, count);
  zero_unheard(first, count);
}
template <class T>
void destroy_slots(T* first, std::size_t count) noexcept {
  if constexpr (zeroes_empty_slots<T>) announce(first, count);
  destroy_unheard(first, count);
}

// The bytes of `from` stay. The caller zeroes them or puts another element there.
template <class T>
void relocate_unheard(T* to, T* from) noexcept {
  static_assert(relocates_safely<T>::value);
  if constexpr (is_relocatable<T>::value) {
    std::memcpy(static_cast<void*>(to), static_cast<const void*>(from), sizeof(T));
  } else {
    if constexpr (is_pair_with_const_first<T>) {
      // The key is about to be destroyed, so it may be moved from.
      using key = std::remove_const_t<typename T::first_type>;
      ::new (static_cast<void*>(to)) T(std::move(const_cast<key&>(from->first)), std::move(from->second));
    } else {
      ::new (static_cast<void*>(to)) T(std::move(*from));
    }
    std::destroy_at(from);
  }
}
// The ranges may overlap. Slots of `from` outside of `to` keep their bytes.
template <class T>
void relocate_unheard(T* to, T* from, std::size_t count) noexcept {
  if constexpr (is_relocatable<T>::value) {
    if (count != 0) std::memmove(static_cast<void*>(to), static_cast<const void*>(from), count * sizeof(T));
  } else if (to < from) {
    for (std::size_t i = 0; i < count; ++i) relocate_unheard(to + i, from + i);
  } else {
    for (std::size_t i = count; i-- > 0;) relocate_unheard(to + i, from + i);
  }
}

// Elements that are not relocated by their bytes are moved from and destroyed.
template <class T>
void announce_departure([[maybe_unused]] const T* from, [[maybe_unused]] std::size_t count) noexcept {
  if constexpr (!is_relocatable<T>::value) announce(from, count);
}

template <class T>
void relocate_one(T* to, T* from) noexcept {
  announce(to, 1);
  announce_departure(from, 1);
  relocate_unheard(to, from);
}

template <class T>
void relocate(T* to, T* from, std::size_t count) noexcept {
  announce(to, count);
  announce_departure(from, count);
  relocate_unheard(to, from, count);
}

// Relocates to slots that do not overlap with `from`. The slots of `from` are zero afterwards.
template <class T>
void relocate_away(T* to, T* from, std::size_t count) noexcept {
  announce(from, count);
  announce(to, count);
  relocate_unheard(to, from, count);
  zero_unheard(from, count);
}

// Space for one element outside of the container, while others are shifted. Its callers announce.
template <class T>
class parked {
 public:
  explicit parked(T* from) noexcept { take(from); }
  parked(const parked&) = delete;
  parked& operator=(const parked&) = delete;
  void take(T* from) noexcept {
    relocate_unheard(place(), from);
    zero_unheard(from, 1);
  }
  void take(parked& from) noexcept { relocate_unheard(place(), from.place()); }
  void put(T* to) noexcept { relocate_unheard(to, place()); }
  // Puts the element at `at`, after moving the elements in [at, end) up by one.
  void put_before(T* at, T* end) noexcept {
    relocate_unheard(at + 1, at, static_cast<std::size_t>(end - at));
    put(at);
  }

 private:
  T* place() noexcept { return reinterpret_cast<T*>(bytes_); }
  alignas(T) std::byte bytes_[sizeof(T)];
};

// Calls make(slot), which constructs an element in a slot that has none, and that the caller has announced. The slot is
// zero again if that throws.
template <class T, class Make>
void make_in(T* slot, Make&& make) {
  if constexpr (noexcept(make(slot))) {
    make(slot);
  } else {
    try {
      make(slot);
    } catch (...) {
      zero_unheard(slot, 1);
      throw;
    }
  }
}

// Moves the element at `from` down to `to`, and the elements in [to, from) up by one.
template <class T>
void rotate_down(T* to, T* from) noexcept {
  if (to == from) return;
  announce(to, static_cast<std::size_t>(from - to) + 1);
  parked<T> element{from};
  element.put_before(to, from);
}

template <class T>
void close_gap_unheard(T* at, std::size_t count, T* end) noexcept {
  relocate_unheard(at, at + count, static_cast<std::size_t>(end - at) - count);
  zero_unheard(end - count, count);
}
// Removes `count` empty slots at `at` from [at, end).
template <class T>
void close_gap(T* at, std::size_t count, T* end) noexcept {
  announce(at, static_cast<std::size_t>(end - at));
  close_gap_unheard(at, count, end);
}
// The same for slots with elements, which it destroys.
template <class T>
void erase_slots(T* at, std::size_t count, T* end) noexcept {
  announce(at, static_cast<std::size_t>(end - at));
  std::destroy_n(at, count);
  close_gap_unheard(at, count, end);
}

// Fresh memory. It is freed again unless release() is called.
template <class T, class Memory>
class fresh_memory {
 public:
  fresh_memory(std::size_t count, const void* near)
      : first_(Memory::template allocate<T>(count, near)), count_(count) {}
  fresh_memory(const fresh_memory&) = delete;
  fresh_memory& operator=(const fresh_memory&) = delete;
  ~fresh_memory() {
    if (first_ != nullptr) Memory::template deallocate<T>(first_, count_);
  }
  [[nodiscard]] T* get() const noexcept { return first_; }
  T* release() noexcept { return std::exchange(first_, nullptr); }

 private:
  T* first_;
  std::size_t count_;
};

}  // namespace detail
}  // namespace tenure
