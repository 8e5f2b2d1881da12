// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Reads a class's description of itself (persist.hpp), in either of its forms.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include <tenure/types/detail/decompose.hpp>
#include <tenure/types/persist.hpp>

namespace tenure::detail {

// A member in a list of members.
template <class Kind, auto M>
struct listed_as;
template <class M, class C, M C::*P>
struct listed_as<M C::*, P> {
  static_assert(!std::is_function_v<M>, "tenure: members<> lists data members, and this is a member function");
  using type = M;
  using owner = C;
  static constexpr auto pointer = P;
  static constexpr bool is_derived = false;
};
template <auto M, derived_member<M> Derived>
struct listed_as<derived_member<M>, Derived> : listed_as<decltype(M), M> {
  static constexpr bool is_derived = true;
};
template <auto M>
using listed_member = listed_as<std::remove_cv_t<decltype(M)>, M>;

// Both forms in a common one.
template <class Bases, class Members>
struct stated {
  using bases = Bases;
  using members = Members;
};

template <class Found, class... Parts>
struct collect : std::type_identity<Found> {};
template <class B, class M, class... Classes, class... Rest>
struct collect<stated<B, M>, bases<Classes...>, Rest...> : collect<stated<bases<Classes...>, M>, Rest...> {};
template <class B, class M, auto... Listed, class... Rest>
struct collect<stated<B, M>, members<Listed...>, Rest...> : collect<stated<B, members<Listed...>>, Rest...> {};
template <class B, class M, class Other, class... Rest>
struct collect<stated<B, M>, Other, Rest...> : collect<stated<B, M>, Rest...> {};

template <class D>
struct read_declaration;
template <class... Parts>
struct read_declaration<declaration<Parts...>> {
  using lists = typename collect<stated<bases<>, members<>>, Parts...>::type;
  template <std::uint32_t N>
  static constexpr std::uint32_t number_of(version<N>) {
    return N;
  }
  static constexpr std::uint32_t number_of(...) { return 0; }
  static constexpr std::uint32_t version_number = (0 + ... + number_of(Parts()));
  static constexpr bool rest_is_data = (false || ... || std::is_same_v<Parts, tenure::rest_is_data>);
};

template <class T>
concept has_persist = requires {
  sizeof(persist<T>);
};
template <class T>
concept persist_lists_something = requires {
  typename persist<T>::members;
}
|| requires { typename persist<T>::bases; }
|| requires { persist<T>::rest_is_data; };

template <class T>
using declaration_in = typename as_declaration<std::remove_cvref_t<decltype(T::persistent)>>::type;

template <class T, class Members>
struct lists_own_member;
template <class T, auto... M>
struct lists_own_member<T, members<M...>>
    : std::bool_constant<sizeof...(M) == 0 || (false || ... || std::is_same_v<typename listed_member<M>::owner, T>)> {};

// A description that a class inherits from its base does not describe the class. It is recognized by this: none of the
// members is the class's own.
template <class T>
concept declares_itself = requires {
  typename declaration_in<T>;
  requires lists_own_member<T, typename read_declaration<declaration_in<T>>::lists::members>::value;
};

template <class T>
struct trait_of;

template <class T>
requires persist_lists_something<T>
struct trait_of<T> {
  template <class P>
  static auto bases_in() {
    if constexpr (requires { typename P::bases; })
      return typename P::bases();
    else
      return tenure::bases<>();
  }
  template <class P>
  static auto members_in() {
    if constexpr (requires { typename P::members; })
      return typename P::members();
    else
      return tenure::members<>();
  }
  template <class P>
  static consteval bool rest_in() {
    if constexpr (requires { P::rest_is_data; })
      return P::rest_is_data;
    else
      return false;
  }
  using bases = decltype(bases_in<persist<T>>());
  using members = decltype(members_in<persist<T>>());
  static constexpr bool rest_is_data = rest_in<persist<T>>();
};

template <class T>
requires(!persist_lists_something<T> && declares_itself<T>) struct trait_of<T> {
  using bases = typename read_declaration<declaration_in<T>>::lists::bases;
  using members = typename read_declaration<declaration_in<T>>::lists::members;
  static constexpr bool rest_is_data = read_declaration<declaration_in<T>>::rest_is_data;
};

template <class T>
concept has_trait = requires {
  typename trait_of<T>::members;
};

template <class T>
consteval std::uint32_t version_of() {
  if constexpr (requires { persist<T>::version; })
    return persist<T>::version;
  else if constexpr (declares_itself<T>)
    return read_declaration<declaration_in<T>>::version_number;
  else
    return 0;
}

// Whether B is a base of T from which a T* cannot be computed: a virtual base. The C cast also works for private
// inheritance.
template <class T, class B>
inline constexpr bool is_virtual_base = !requires(B * base) {
  (T*)base;
};

template <class T>
consteval bool has_virtual_base();
template <class T, class... B>
consteval bool any_virtual(bases<B...>) {
  return (false || ... || (is_virtual_base<T, B> || has_virtual_base<B>()));
}
template <class T>
consteval bool has_virtual_base() {
  if constexpr (has_trait<T>)
    return any_virtual<T>(typename trait_of<T>::bases());
  else
    return false;
}
// Whether objects of T begin with a vtable pointer.
template <class T>
consteval bool has_vtable_pointer() {
  return std::is_polymorphic_v<T> || has_virtual_base<T>();
}

template <class T>
concept has_prototype_function = requires(void* memory) {
  persist<T>::prototype(memory);
};
template <class T>
concept can_make_prototype =
    has_prototype_function<T> || std::is_constructible_v<T, prototype_tag> || std::is_default_constructible_v<T>;

// The offset of a member in objects of T. In the Itanium C++ ABI a pointer to a data member is this offset.
template <class T, auto M>
std::uint64_t offset_of_member() {
  using listed = listed_member<M>;
  const auto pointer =
      (typename listed::type T::*)(listed::pointer);  // may name a member of a base, which may be private
  std::ptrdiff_t offset = 0;
  static_assert(sizeof pointer == sizeof offset);
  std::memcpy(&offset, &pointer, sizeof offset);
  return static_cast<std::uint64_t>(offset);
}

}  // namespace tenure::detail
