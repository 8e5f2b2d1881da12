// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Databases of a store (tenure/store.hpp), and how objects are made in them.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenure/types/fields.hpp>
#include <tenure/types/registry.hpp>
#include <tenure/types/type.hpp>

namespace tenure {

struct database_state;

#pragma GCC visibility push(default)  // libtenure.so exports it

class store;

// A database of an open store [PM3 §6.1, figure 6]. A light handle: copies name the same database. Valid until the
// store is closed. Threads: as for the store.
class database {
 public:
  [[nodiscard]] const std::string& name() const;
  // Makes an object in this database, where it stays, instead of in the default database. See store::make.
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments);
  // The roots of this database. The functions are those of the store, which are for the roots of the default database.
  template <class T>
  T& root(std::string_view root_name);
  template <class T>
  [[nodiscard]] T* find_root(std::string_view root_name) const;
  void remove_root(std::string_view root_name);
  [[nodiscard]] std::vector<std::string> root_names() const;
  // The address of its first byte, 16 MiB above database_options::home; and its reservation in bytes, as in
  // database_options.
  [[nodiscard]] std::uint64_t home() const;
  [[nodiscard]] std::uint64_t reservation() const;

 private:
  friend class store;
  explicit database(database_state* state) : state_(state) {}
  void* root_object(std::string_view root_name, const type& of, void* (*make_it)(database_state&)) const;
  database_state* state_;
};

namespace detail {

// Makes an object of `bytes` zero bytes in the database, with a header that names its type. Its constructor has not run
// yet.
void* make_object(database_state& in, const type& of, std::uint64_t bytes);
// Called when the constructor has run: replaces the vtable pointers by those that mean the same in every process.
void constructed(database_state& in, const type& of, void* object) noexcept;
// Called when the constructor has thrown.
void unmake_object(database_state& in, void* object) noexcept;
// Types that a program makes or looks for are registered when the program starts (registry.hpp). So their virtual
// functions work in every store from the beginning, and their layouts are compared when a store is opened.
template <class T>
struct registration {
  static inline const tenure::register_type<T> of_type{};
};

// The description of T. Does not compile if T cannot persist; the message says why.
template <class T>
const type& stored_type_of() {
  static_assert(!std::is_reference_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T>,
                "name the plain type of the object");
  static_assert(alignof(T) <= 16384, "tenure: objects of a store can be aligned to at most 16384 bytes");
  (void)&registration<T>::of_type;
  return type_of<T>();
}

}  // namespace detail

template <class T, class... Arguments>
T* database::make(Arguments&&... arguments) {
  const type& of = detail::stored_type_of<T>();
  void* const memory = detail::make_object(*state_, of, sizeof(T));
  T* object;
  if constexpr (std::is_nothrow_constructible_v<T, Arguments...>) {
    object = ::new (memory) T(std::forward<Arguments>(arguments)...);
  } else {
    try {
      if constexpr (std::is_constructible_v<T, Arguments...>)
        object = ::new (memory) T(std::forward<Arguments>(arguments)...);
      else
        object = ::new (memory) T{std::forward<Arguments>(arguments)...};
    } catch (...) {
      detail::unmake_object(*state_, memory);
      throw;
    }
  }
  if constexpr (!std::is_trivially_copyable_v<T>)
    detail::constructed(*state_, of, memory);  // the others have no vtable
  return object;
}

template <class T>
T& database::root(std::string_view root_name) {
  const auto make_it = [](database_state& in) -> void* { return database(&in).make<T>(); };
  return *static_cast<T*>(root_object(root_name, detail::stored_type_of<T>(), make_it));
}

template <class T>
T* database::find_root(std::string_view root_name) const {
  return static_cast<T*>(root_object(root_name, detail::stored_type_of<T>(), nullptr));
}

#pragma GCC visibility pop

}  // namespace tenure
