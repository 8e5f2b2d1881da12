// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How a class describes itself, so that its objects can persist [PM3 §6.2.3: there the compiler does it]. Aggregates
// without base classes (structs with public members only) need no description. Other classes name their members and
// bases. They do it inside of the class, behind the named members, which may be private:
//
//     class account : public entity {
//       owner* owner_;
//       long cents_;
//      public:
//       static constexpr auto persistent =
//           tenure::bases<entity>{} + tenure::members<&account::owner_, &account::cents_>{} + tenure::version<2>{};
//     };
//
// or outside of the class:
//
//     template <>
//     struct tenure::persist<account> {
//       using bases = tenure::bases<entity>;
//       using members = tenure::members<&account::owner, &account::cents>;
//       static constexpr std::uint32_t version = 2;
//     };
//
// Members without pointers may be left out, as long as no eight bytes at a multiple of eight consist only of them. Some
// bytes belong to members that cannot be named: bit-fields and unions. The class declares these bytes to be data with
// tenure::rest_is_data, or with `static constexpr bool rest_is_data = true`.
//
// A class with virtual functions must name all its bases that have virtual functions, directly or in their own bases.
// The library makes objects of it to read their vtable pointers. For this it uses tenure::persist<T>::prototype(void*
// memory), a static function without a result; or else a constructor that takes a tenure::prototype_tag; or else the
// default constructor. Such an object is destroyed at once. Any thread may make it.
//
// Mistakes are compile-time errors if the compiler can see them. Other mistakes throw errc::bad_type when the type is
// first used, or, if it is registered (registry.hpp), when a store is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tenure {

// Specialize it for classes that cannot be changed. Besides the members above, `static constexpr std::string_view name`
// gives the type another name in the store. Types that contain it or point to it are still described with its C++ name.
template <class T>
struct persist;

// Specialize it for classes that are stored in other layouts: see evolve.hpp.
template <class T>
struct evolve;

template <auto... Members>
struct members {};

template <class... Bases>
struct bases {};

template <std::uint32_t Number>
struct version {};

struct rest_is_data {};

// A member listed as derived<&vector::end_> is a pointer into the object to which the member before it refers, or one
// past its end.
template <auto Member>
struct derived_member {};
template <auto Member>
inline constexpr derived_member<Member> derived{};

// Selects a constructor that makes an object only for reading its vtable pointers.
struct prototype_tag {};

namespace detail {

template <class... Parts>
struct declaration {};

template <class P>
struct as_declaration {};
template <auto... M>
struct as_declaration<members<M...>> : std::type_identity<declaration<members<M...>>> {};
template <class... B>
struct as_declaration<bases<B...>> : std::type_identity<declaration<bases<B...>>> {};
template <std::uint32_t N>
struct as_declaration<version<N>> : std::type_identity<declaration<version<N>>> {};
template <>
struct as_declaration<rest_is_data> : std::type_identity<declaration<rest_is_data>> {};
template <class... P>
struct as_declaration<declaration<P...>> : std::type_identity<declaration<P...>> {};

template <class... One, class... Other>
consteval declaration<One..., Other...> joined(declaration<One...>, declaration<Other...>) {
  return {};
}

}  // namespace detail

template <class One, class Other>
consteval auto operator+(One, Other) requires requires {
  typename detail::as_declaration<One>::type;
  typename detail::as_declaration<Other>::type;
}
{ return detail::joined(typename detail::as_declaration<One>::type(), typename detail::as_declaration<Other>::type()); }

}  // namespace tenure
