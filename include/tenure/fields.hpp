// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// type_of<T>(): the description of T, made by the compiler. docs/types.md says which types can persist and what must be said
// about which classes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <tenure/detail/types_classes.hpp>
#include <tenure/detail/types_decompose.hpp>
#include <tenure/detail/types_names.hpp>
#include <tenure/detail/types_rules.hpp>
#include <tenure/detail/types_standard.hpp>
#include <tenure/persist.hpp>
#include <tenure/transient.hpp>
#include <tenure/type.hpp>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

// Whether objects of type T can persist, with all that is in them. What pointers refer to is looked at when it is made, except
// for classes of the standard library.
template <class T>
inline constexpr bool is_persistable_v = detail::obstacle_of<T>() == detail::obstacle::none;

// Whether it is known of all words in objects of type T whether they are pointers. A database in which something else is
// persistent cannot be relocated.
template <class T>
inline constexpr bool is_exact_v = detail::exact_of<T>();

namespace detail {

template <class T>
concept is_complete = requires {
  sizeof(T);
};

template <class E>
consteval scalar_kind scalar_of() {
  if constexpr (std::is_same_v<E, bool>)
    return scalar_kind::boolean;
  else if constexpr (std::is_enum_v<E>)
    return scalar_kind::enumeration;
  else if constexpr (std::is_floating_point_v<E>)
    return scalar_kind::floating;
  else if constexpr (std::is_same_v<E, char> || std::is_same_v<E, wchar_t> || std::is_same_v<E, char8_t> ||
                     std::is_same_v<E, char16_t> || std::is_same_v<E, char32_t>)
    return scalar_kind::character;
  else if constexpr (std::is_null_pointer_v<E>)
    return scalar_kind::none;
  else
    return E(-1) < E(0) ? scalar_kind::signed_integer : scalar_kind::unsigned_integer;
}

// The type of one element of a field of type M, and how many there are.
template <class M>
struct element_of {
  using type = std::remove_cv_t<M>;
  static constexpr std::uint64_t count = 1;
};
template <class M, std::size_t N>
struct element_of<M[N]> {
  using type = typename element_of<M>::type;
  static constexpr std::uint64_t count = N * element_of<M>::count;
};
template <class M, std::size_t N>
struct element_of<const M[N]> : element_of<M[N]> {};
template <class M>
requires(standard<std::atomic<M>>::exact) struct element_of<std::atomic<M>> : element_of<M> {
};

// Describes the fields of a pointer, a number or a class in the way of its kind.
template <class E>
void describe_element(field& f) {
  if constexpr (is_transient<E>) {
    f.kind = field_kind::transient;
  } else if constexpr (std::is_pointer_v<E>) {
    using pointee = std::remove_cv_t<std::remove_pointer_t<E>>;
    f.kind = field_kind::reference;
    if constexpr (is_complete<pointee> && !std::is_void_v<pointee>) f.of = &type_of<pointee>;
  } else if constexpr (std::is_class_v<E> || std::is_union_v<E>) {
    f.kind = field_kind::nested;
    f.of = &type_of<E>;
  } else {
    f.kind = field_kind::data;
    f.scalar = scalar_of<E>();
  }
}

template <class M>
void add_field(std::vector<field>& to, std::string name, std::uint64_t offset,
               const std::optional<field_guard>& only_if) {
  using element = typename element_of<std::remove_cv_t<M>>::type;
  (void)require_persistable<M>();
  if constexpr (own_obstacle<M>() == obstacle::none) {
    if constexpr (!std::is_empty_v<element>) {
      field f;
      f.name = std::move(name);
      f.offset = offset;
      f.size = sizeof(M);
      f.count = element_of<std::remove_cv_t<M>>::count;
      f.type_name = readable_name(typeid(element));
      f.only_if = only_if;
      describe_element<element>(f);
      to.push_back(std::move(f));
    }
  }
}

template <class... F>
consteval bool require_each_persistable(type_list<F...>) {
  return (true && ... && require_persistable<F>());
}

template <class T>
void describe(type& t) {
  constexpr shape s = shape_of<T>();
  if constexpr (s == shape::scalar || s == shape::array || s == shape::transient) {
    add_field<T>(t.fields, "", 0);
  } else if constexpr (s == shape::standard) {
    standard<T>::describe(t);
  } else if constexpr (s == shape::aggregate) {
    add_aggregate(t.fields, "", 0, static_cast<const T*>(nowhere()));
  } else if constexpr (s == shape::trait && !(std::is_abstract_v<T> && has_virtual_base<T>())) {
    t.fields = parts_of_class<T>().fields;
  } else if constexpr (!std::is_empty_v<T>) {
    if constexpr (s == shape::opaque) (void)require_each_persistable(components_of<T>());
    field f;
    f.kind = s == shape::plain || !has_room_for_pointer<T> ? field_kind::data : field_kind::conservative;
    f.size = sizeof(T);
    f.type_name = t.name;
    t.fields.push_back(std::move(f));
  }
}

template <class T>
consteval type_operations make_operations() {
  type_operations result;
  if constexpr (std::is_class_v<T>) result.info = &typeid(T);
  if constexpr (std::is_class_v<T> && std::is_destructible_v<T> && !std::is_trivially_destructible_v<T>)
    result.destroy = [](void* object) noexcept { static_cast<T*>(object)->~T(); };
  if constexpr (std::is_class_v<T> && !std::is_abstract_v<T>)
    if constexpr (has_trait<T>)
      if constexpr (has_vtable_pointer<T>()) result.vtables = &vtables_of<T>;
  return result;
}
template <class T>
inline constexpr type_operations operations_of = make_operations<T>();

// Sorts the fields, computes the fingerprint and what follows from the fields. Throws errc::bad_type if a class that must name
// all its members leaves room for a pointer unnamed.
void complete(type& t, bool must_be_covered);

// The type of arrays of `t` that a container keeps more slots of than it has values: slots behind the live ones may hold old
// pointers.
[[nodiscard]] type stale_slots_of(const type& t);

template <class T>
type make_type() {
  type t;
  if constexpr (requires { persist<T>::name; })
    t.name = persist<T>::name;
  else
    t.name = readable_name(typeid(T));
  t.size = sizeof(T);
  t.alignment = alignof(T);
  if constexpr (std::is_class_v<T>) t.version = version_of<T>();
  t.operations = &operations_of<T>;
  describe<T>(t);
  bool must_be_covered = false;
  if constexpr (shape_of<T>() == shape::trait) must_be_covered = !trait_of<T>::rest_is_data;
  complete(t, must_be_covered);
  return t;
}

}  // namespace detail

template <class T>
const type& type_of() {
  using bare = std::remove_cv_t<T>;
  if constexpr (!std::is_same_v<T, bare>) {
    return type_of<bare>();
  } else {
    (void)detail::require_persistable<T>();
    if constexpr (detail::own_obstacle<T>() == detail::obstacle::none) {
      // Never destroyed: stores at namespace scope are closed after the function's own objects would be gone.
      static const type* const made = new type(detail::make_type<T>());
      return *made;
    } else {
      static const type none;
      return none;  // does not compile anyway
    }
  }
}

#pragma GCC visibility pop

}  // namespace tenure
