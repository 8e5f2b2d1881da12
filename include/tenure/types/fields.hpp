// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// type_of<T>(): the description of T, made by the compiler. docs/types.md says which types can persist, and which
// classes must describe themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include <tenure/types/detail/classes.hpp>
#include <tenure/types/detail/facts.hpp>
#include <tenure/types/detail/reference_words.hpp>
#include <tenure/types/detail/rules.hpp>
#include <tenure/types/detail/standard.hpp>
#include <tenure/types/persist.hpp>
#include <tenure/types/transient.hpp>
#include <tenure/types/type.hpp>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

// Whether objects of type T can persist, together with all their fields. The types to which their pointers refer are
// checked when the description is made, except for classes of the standard library.
template <class T>
inline constexpr bool is_persistable_v = detail::obstacle_of<T>() == detail::obstacle::none;

// Whether it is known for every word of an object of type T if it is a pointer. A database cannot be relocated if an
// object of any other type is persistent in it.
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

// The type of one element of a field of type M, and the number of elements.
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
struct element_of<field<M>> : element_of<M> {};
template <template <class> class Atomic, class M>
requires is_atomic<Atomic<M>> && standard<Atomic<M>>::exact struct element_of<Atomic<M>> : element_of<M> {
};

template <class M>
consteval field_facts make_facts() {
  using element = typename element_of<std::remove_cv_t<M>>::type;
  field_facts facts;
  facts.element = &typeid(element);
  facts.size = sizeof(M);
  facts.count = element_of<std::remove_cv_t<M>>::count;
  facts.row = element_of<std::remove_extent_t<std::remove_cv_t<M>>>::count;
  if constexpr (!std::is_array_v<std::remove_extent_t<std::remove_cv_t<M>>>) facts.row = 1;
  if constexpr (is_transient<element>) {
    facts.kind = field_kind::transient;
  } else if constexpr (std::is_pointer_v<element>) {
    using pointee = std::remove_cv_t<std::remove_pointer_t<element>>;
    facts.kind = field_kind::reference;
    if constexpr (is_complete<pointee> && !std::is_void_v<pointee>) facts.of = &type_of<pointee>;
  } else if constexpr (reference_word<element>::is) {
    using pointee = std::remove_cv_t<typename reference_word<element>::target>;
    facts.kind = field_kind::reference;
    facts.is_checked = true;
    if constexpr (is_complete<pointee> && !std::is_void_v<pointee>) facts.of = &type_of<pointee>;
  } else if constexpr (std::is_class_v<element> || std::is_union_v<element>) {
    facts.kind = field_kind::nested;
    facts.of = &type_of<element>;
  } else {
    facts.scalar = scalar_of<element>();
  }
  return facts;
}
// Const fields are stored like all others.
template <class M>
inline constexpr field_facts facts_of = make_facts<M>();

template <class M>
consteval bool has_facts() {
  (void)require_persistable<M>();
  if constexpr (own_obstacle<M>() == obstacle::none)
    return !std::is_empty_v<typename element_of<std::remove_cv_t<M>>::type>;
  return false;
}

template <class M>
consteval const field_facts* facts_or_none() {
  if constexpr (has_facts<M>()) return &facts_of<std::remove_cv_t<M>>;
  return nullptr;
}

template <class M>
void add_field(std::vector<type_field>& to, std::string_view name, std::uint64_t offset, const field_guard* only_if) {
  if constexpr (has_facts<M>()) add_known_field(to, name, offset, facts_of<std::remove_cv_t<M>>, only_if);
}

template <class... F>
consteval bool require_each_persistable(type_list<F...>) {
  return (true && ... && require_persistable<F>());
}

// The description of a type of which nothing more is known.
template <class T>
consteval field_facts make_bare_facts() {
  field_facts facts;
  facts.kind = shape_of<T>() == shape::plain || !has_room_for_pointer<T> ? field_kind::data : field_kind::conservative;
  facts.size = sizeof(T);
  return facts;
}
template <class T>
inline constexpr field_facts bare_facts_of = make_bare_facts<T>();

// Defined in evolve.hpp, which declarations of changes need.
template <class T>
const type_changes& changes_of();

template <class T>
consteval type_operations make_operations() {
  type_operations result;
  if constexpr (std::is_class_v<T>) result.info = &typeid(T);
  if constexpr (std::is_class_v<T> && std::is_destructible_v<T> && !std::is_trivially_destructible_v<T>)
    result.destroy = [](void* object) noexcept { static_cast<T*>(object)->~T(); };
  if constexpr (std::is_class_v<T> && !std::is_abstract_v<T>)
    if constexpr (has_trait<T>)
      if constexpr (has_vtable_pointer<T>()) result.vtables = &vtables_of<T>;
  if constexpr (shape_of<T>() == shape::aggregate || shape_of<T>() == shape::trait)
    if constexpr (!std::is_abstract_v<T> && std::is_default_constructible_v<T>)
      result.construct = [](void* memory) { ::new (memory) T(); };
  if constexpr (requires { &evolve<T>::describe; }) result.changes = &changes_of<T>;
  return result;
}
template <class T>
inline constexpr type_operations operations_of = make_operations<T>();

// The type of a container's array of `t` that has more slots than values. Slots behind the live ones may hold old
// pointers.
[[nodiscard]] type stale_slots_of(const type& t);

// What a container allocates: single values of a type, or arrays.
template <class T>
struct arrays_of {};
template <class T>
const type& element_type();  // standard_containers.hpp
template <class T>
constexpr const type& (*allocated_type(std::type_identity<T>))() {
  return &type_of<T>;
}
template <class T>
constexpr const type& (*allocated_type(std::type_identity<arrays_of<T>>))() {
  return &element_type<T>;
}
template <class... T>
void add_allocated(type_list<T...>*, std::vector<type_reference>& to) {
  (to.emplace_back(allocated_type(std::type_identity<T>())), ...);
}

template <class T>
consteval described_type make_described() {
  constexpr shape s = shape_of<T>();
  described_type result;
  type_facts& facts = result.facts;
  facts.info = &typeid(T);
  if constexpr (requires { persist<T>::name; }) facts.name = persist<T>::name;
  facts.size = sizeof(T);
  facts.alignment = alignof(T);
  if constexpr (std::is_class_v<T>) facts.version = version_of<T>();
  facts.operations = &operations_of<T>;
  if constexpr (s == shape::trait) facts.must_be_covered = !trait_of<T>::rest_is_data;
  if constexpr (s == shape::scalar || s == shape::array || s == shape::transient) {
    facts.only_field = facts_or_none<T>();
  } else if constexpr (s == shape::standard) {
    facts.describe = &standard<T>::describe;
    if constexpr (requires { typename standard<T>::allocated; })
      facts.add_allocated = [](std::vector<type_reference>& to) {
        add_allocated(static_cast<typename standard<T>::allocated*>(nullptr), to);
      };
  } else if constexpr (s == shape::aggregate || (s == shape::trait && !has_virtual_base<T>())) {
    facts.add = &add_class<T>;
  } else if constexpr (s == shape::trait && !std::is_abstract_v<T>) {
    facts.describe = &describe_with_prototype<T>;
  } else if constexpr (!std::is_empty_v<T>) {
    if constexpr (s == shape::opaque) (void)require_each_persistable(components_of<T>());
    facts.only_field = &bare_facts_of<T>;
  }
  if constexpr (requires { typename T::allocated_types; })
    facts.add_allocated = [](std::vector<type_reference>& to) {
      add_allocated(static_cast<typename T::allocated_types*>(nullptr), to);
    };
  return result;
}

}  // namespace detail

template <class T>
const type& type_of() {
  using bare = std::remove_cv_t<typename detail::without_field<T>::type>;
  if constexpr (!std::is_same_v<T, bare>) {
    return type_of<bare>();
  } else {
    (void)detail::require_persistable<T>();
    if constexpr (detail::own_obstacle<T>() == detail::obstacle::none) {
      // The description is never destroyed, because stores at namespace scope are closed after an object of this
      // function would be destroyed.
      static constinit detail::described_type described = detail::make_described<T>();
      return detail::description_of(described);
    } else {
      static const type none;
      return none;  // does not compile anyway
    }
  }
}

#pragma GCC visibility pop

}  // namespace tenure
