// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of classes of the standard library that hold their values in themselves. If the standard does not fix
// the layout, it is known for libstdc++ only. With other libraries these classes are conservative.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <tenure/types/detail/decompose.hpp>
#include <tenure/types/detail/facts.hpp>
#include <tenure/types/detail/names.hpp>
#include <tenure/types/detail/standard_parts.hpp>
#include <tenure/types/type.hpp>

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

template <class M, class T>
std::uint64_t distance(const T* object, const M* member) {
  return static_cast<std::uint64_t>(reinterpret_cast<const char*>(member) - reinterpret_cast<const char*>(object));
}

// Adds the field `name` of type M (fields.hpp).
template <class M>
void add_field(std::vector<type_field>& to, std::string_view name, std::uint64_t offset,
               const field_guard* only_if = nullptr);

// Specialized for the known classes: the types of their values, whether their layout is known, and their fields. Types
// that are only referred to are no components.
template <class T>
struct standard;

template <class T>
concept is_standard = requires {
  sizeof(standard<T>);
};

template <class T, std::size_t N>
struct standard<std::array<T, N>> {
  using components = type_list<T>;
  static constexpr bool exact = true;
  static void describe(type& t) {
    if constexpr (N > 0) add_field<T[N]>(t.fields, "", 0);
  }
};

template <class A, class B>
struct standard<std::pair<A, B>> {
  using components = type_list<A, B>;
  static constexpr bool exact = true;
  static void describe(type& t) {
    const auto* object = static_cast<const std::pair<A, B>*>(nowhere());
    add_field<A>(t.fields, "first", distance(object, std::addressof(object->first)));
    add_field<B>(t.fields, "second", distance(object, std::addressof(object->second)));
  }
};

template <class... T>
struct standard<std::tuple<T...>> {
  using components = type_list<T...>;
  static constexpr bool exact = true;
  static void describe(type& t) { describe_elements(t, std::index_sequence_for<T...>()); }

 private:
  template <std::size_t... I>
  static void describe_elements(type& t, std::index_sequence<I...>) {
    [[maybe_unused]] const auto* object = static_cast<const std::tuple<T...>*>(nowhere());
    (add_field<T>(t.fields, std::to_string(I), distance(object, std::addressof(std::get<I>(*object)))), ...);
  }
};

// std::atomic and std::variant are recognized by name, because their headers are large and few programs need them.
template <class T>
consteval bool has_standard_name(std::string_view beginning) {
  return is_of_standard_library<T>() && compiler_name_of_type<T>().starts_with(beginning);
}
template <class T>
concept is_atomic = has_standard_name<T>("atomic<");
template <class T>
concept is_variant = has_standard_name<T>("variant<");

template <template <class> class Atomic, class T>
requires is_atomic<Atomic<T>>
struct standard<Atomic<T>> {
  using components = type_list<T>;
  static constexpr bool exact = sizeof(Atomic<T>) == sizeof(T);
  static void describe(type& t) { add_field<T>(t.fields, "", 0); }
};

#if defined(__GLIBCXX__)
inline constexpr bool layout_of_unions_is_known = true;
#else
inline constexpr bool layout_of_unions_is_known = false;
#endif

// The value, then a flag whether there is one.
template <class T>
struct standard<std::optional<T>> {
  using components = type_list<T>;
  static constexpr std::uint64_t engaged = sizeof(T);
  static constexpr bool exact =
      layout_of_unions_is_known && sizeof(std::optional<T>) == (sizeof(T) / alignof(T) + 1) * alignof(T);
  static void describe(type& t) {
    const field_guard if_engaged{engaged, 1, 1};
    add_field<T>(t.fields, "value", 0, &if_engaged);
    add_field<bool>(t.fields, "has_value", engaged);
  }
};

template <class... Numbers>
consteval std::size_t largest_of(Numbers... numbers) {
  std::size_t largest = 0;
  ((largest = numbers > largest ? numbers : largest), ...);
  return largest;
}

// All alternatives at the same place, then the number of the current one.
template <template <class...> class Variant, class... T>
requires is_variant<Variant<T...>>
struct standard<Variant<T...>> {
  using components = type_list<T...>;
  static constexpr std::size_t alignment = largest_of(alignof(T)...);
  static constexpr std::uint64_t index = (largest_of(sizeof(T)...) + alignment - 1) / alignment * alignment;
  using index_type = std::conditional_t<sizeof...(T) <= 255, std::uint8_t, std::uint16_t>;
  static constexpr bool exact =
      layout_of_unions_is_known &&
      sizeof(Variant<T...>) == (index / alignment + (sizeof(index_type) + alignment - 1) / alignment) * alignment;
  static void describe(type& t) { describe_alternatives(t, std::index_sequence_for<T...>()); }

 private:
  template <std::size_t... I>
  static void describe_alternatives(type& t, std::index_sequence<I...>) {
    const field_guard if_active[]{{index, sizeof(index_type), I}...};
    (add_field<T>(t.fields, std::to_string(I), 0, if_active + I), ...);
    add_field<index_type>(t.fields, "index", index);
  }
};
#pragma GCC visibility pop

}  // namespace tenure::detail
