// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a class says about itself so that its objects can persist [PM3 §6.2.3: there the compiler says it]. Aggregates without base classes (structs with public members
// only) need to say nothing. Others name their members and bases, in the class, which may have private members:
//
//     class account : public entity {
//       owner* owner_;
//       long cents_;
//      public:
//       static constexpr auto persistent =
//           tenure::bases<entity>{} + tenure::members<&account::owner_, &account::cents_>{} + tenure::version<2>{};
//     };
//
// behind the members that it names; or outside of it:
//
//     template <>
//     struct tenure::persist<account> {
//       using bases = tenure::bases<entity>;
//       using members = tenure::members<&account::owner, &account::cents>;
//       static constexpr std::uint32_t version = 2;
//     };
//
// Members that hold no pointers may be left out if there are not eight bytes in a row of them at a multiple of eight; bytes that
// no member can be named for, of bit-fields and unions, are taken for data if the class says tenure::rest_is_data, or
// `static constexpr bool rest_is_data = true`.
//
// A class with virtual functions must name all its bases that have virtual functions, or bases that do. The library makes
// objects of it to look at their vtable pointers: by the default constructor, or a constructor that takes a
// tenure::prototype_tag, or a function `static void prototype(void* memory)` of tenure::persist, in this order reversed. Such
// an object is destroyed at once, and may have been made by any thread.
//
// Mistakes are compile-time errors where the compiler can see them, and else errc::bad_type when the type is first used or, if it
// is registered (registry.hpp), when a store is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tenure {

// Specialize it for classes that cannot be changed. Besides what is shown above, `static constexpr std::string_view name`
// gives the type another name, under which the store knows it; types that contain it or point to it are described with its C++
// name all the same.
template <class T>
struct persist;

template <auto... Members>
struct members {};

template <class... Bases>
struct bases {};

template <std::uint32_t Number>
struct version {};

struct rest_is_data {};

// derived<&vector::end_> among the members: a pointer into, or one past, the object that the member before it refers to.
template <auto Member>
struct derived_member {};
template <auto Member>
inline constexpr derived_member<Member> derived{};

// Chooses a constructor that makes an object only to be looked at.
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
