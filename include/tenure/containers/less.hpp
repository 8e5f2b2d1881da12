// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The default orders of maps and sets, and the key types that queries accept.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tenure/containers/detail/home_address.hpp>

namespace tenure {

namespace detail {

// Types whose values are text: strings and views of strings, but not pointers to char, which are ordinary keys.
template <class T>
concept text = std::is_convertible_v<const T&, std::string_view> && !std::is_pointer_v<T>;

template <class F>
concept transparent = requires {
  typename F::is_transparent;
};

// The type in which lookup functions take a key. If the order or hash accepts any type, any type. Otherwise the key
// type, to which arguments convert as usual.
template <bool Any>
struct query {
  template <class Q, class Key>
  using type = Q;
};
template <>
struct query<false> {
  template <class Q, class Key>
  using type = Key;
};

// The form in which a query is compared. For text this is a view, so that its length is found only once, not in each
// comparison.
template <class F, class Q>
decltype(auto) prepared(const Q& q) noexcept {
  if constexpr (requires { typename F::compares_text; } && std::is_convertible_v<const Q&, std::string_view>)
    return std::string_view(q);
  else
    return (q);
}

}  // namespace detail

namespace detail {

template <class T>
inline constexpr bool has_pointer = std::is_pointer_v<T>;
template <class A, class B>
inline constexpr bool has_pointer<std::pair<A, B>> = has_pointer<A> || has_pointer<B>;

}  // namespace detail

// operator<. For pointers, also in pairs, the order of home addresses.
template <class T>
struct less {
  bool operator()(const T& a, const T& b) const noexcept(noexcept(a < b)) {
    if constexpr (std::is_pointer_v<T>)
      return detail::home_address(a) < detail::home_address(b);
    else
      return a < b;
  }
};
template <class A, class B>
requires detail::has_pointer<std::pair<A, B>>
struct less<std::pair<A, B>> {
  bool operator()(const std::pair<A, B>& a, const std::pair<A, B>& b) const
      noexcept(noexcept(less<A>()(a.first, b.first)) && noexcept(less<B>()(a.second, b.second))) {
    if (less<A>()(a.first, b.first)) return true;
    return !less<A>()(b.first, a.first) && less<B>()(a.second, b.second);
  }
};
// Text compares with everything that is convertible to std::string_view.
template <detail::text T>
struct less<T> {
  using is_transparent = void;
  using compares_text = void;
  bool operator()(std::string_view a, std::string_view b) const noexcept { return a < b; }
};

// operator==. Text compares as in less.
template <class T>
struct equal_to {
  bool operator()(const T& a, const T& b) const noexcept(noexcept(a == b)) { return a == b; }
};
template <detail::text T>
struct equal_to<T> {
  using is_transparent = void;
  using compares_text = void;
  bool operator()(std::string_view a, std::string_view b) const noexcept { return a == b; }
};

}  // namespace tenure
