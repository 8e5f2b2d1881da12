// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// References that do not keep their objects: caches, indexes of what others own, parents, observers.
//
//     struct document {
//       tenure::weak<document> opened_from;
//     };
//     store.transact([&] { copy->opened_from = tenure::weak(original); });
//     if (document* from = copy->opened_from.lock()) show(from->title);
//
// When an object ends, by store::destroy() or by a garbage collection, the same transaction clears the weak references to it,
// or an earlier one. A collection clears those to objects that only a finalization queue will keep, too.
#pragma once

#include <concepts>
#include <cstddef>

#include <tenure/barriers.hpp>
#include <tenure/persist.hpp>
#include <tenure/store/weak_cell.hpp>

namespace tenure {

namespace detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// The cell for weak references to an object; makes it if there is none. nullptr: nullptr. As weak(T*).
[[nodiscard]] weak_cell* weak_cell_of(const void* object);
// As weak::lock().
[[nodiscard]] void* lock(const weak_cell* cell);

#pragma GCC visibility pop

}  // namespace detail

// A weak reference to an object that make() or root() has made, or to a base or a member of it. It may be a field of any object
// of the store, or a variable of the program. The object may be in another database of the store. If a commit makes the
// reference persistent, but not its object, it is cleared.
//
// Copying and assigning weak references is as with pointers. Different ones may be used by different threads at once.
template <class T>
class weak {
 public:
  weak() noexcept = default;
  weak(std::nullptr_t) noexcept {}
  // In a write transaction (errc::bad_transaction). The first reference to an object makes a small object of 8 bytes, which the
  // others share. Throws errc::bad_weak_reference if no object is there, if it was destroyed, or if it is an element of a
  // container; and what store::make() throws.
  explicit weak(T* to) : cell_(detail::weak_cell_of(to)) {}
  template <std::convertible_to<T*> Other>
  explicit weak(Other to) : weak(static_cast<T*>(to)) {}
  weak(const weak&) noexcept = default;
  weak& operator=(const weak& other) noexcept {
    if (this != &other) change(cell_) = other.cell_;
    return *this;
  }
  weak& operator=(std::nullptr_t) noexcept { return *this = weak(); }
  ~weak() = default;

  // The object; nullptr if it is gone, or was destroyed by this thread's open transaction. While a collection goes on: if it is
  // kept. Whoever has got it may keep it like any pointer. Inside a transaction of the thread it takes some nanoseconds;
  // outside of one it waits for the end of another thread's write transaction. Throws errc::closed if its store is not open.
  [[nodiscard]] T* lock() const { return static_cast<T*>(detail::lock(cell_)); }
  [[nodiscard]] bool expired() const { return lock() == nullptr; }

  // Whether they were made for the same place, even if it is gone.
  [[nodiscard]] friend bool operator==(const weak& a, const weak& b) noexcept { return a.cell_ == b.cell_; }

 private:
  detail::weak_cell* cell_ = nullptr;

 public:
  static constexpr auto persistent = members<&weak::cell_>{};
};

template <class T>
weak(T*) -> weak<T>;

}  // namespace tenure
