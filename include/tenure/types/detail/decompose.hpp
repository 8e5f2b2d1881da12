// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The fields of an aggregate: their number, types and places. They are found with structured bindings, which see
// exactly the fields. But the number must be known first. It is the number of initializers `{}` that the aggregate
// accepts.
//
// Before C++26, which has packs in structured bindings, every number of fields must be written out: TENURE_FIELDS_3(X)
// is X(f0), X(f1), X(f2).
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <tenure/types/detail/standard_parts.hpp>

#define TENURE_FIELDS_1(X) X(f0)
#define TENURE_FIELDS_2(X) TENURE_FIELDS_1(X), X(f1)
#define TENURE_FIELDS_3(X) TENURE_FIELDS_2(X), X(f2)
#define TENURE_FIELDS_4(X) TENURE_FIELDS_3(X), X(f3)
#define TENURE_FIELDS_5(X) TENURE_FIELDS_4(X), X(f4)
#define TENURE_FIELDS_6(X) TENURE_FIELDS_5(X), X(f5)
#define TENURE_FIELDS_7(X) TENURE_FIELDS_6(X), X(f6)
#define TENURE_FIELDS_8(X) TENURE_FIELDS_7(X), X(f7)
#define TENURE_FIELDS_9(X) TENURE_FIELDS_8(X), X(f8)
#define TENURE_FIELDS_10(X) TENURE_FIELDS_9(X), X(f9)
#define TENURE_FIELDS_11(X) TENURE_FIELDS_10(X), X(f10)
#define TENURE_FIELDS_12(X) TENURE_FIELDS_11(X), X(f11)
#define TENURE_FIELDS_13(X) TENURE_FIELDS_12(X), X(f12)
#define TENURE_FIELDS_14(X) TENURE_FIELDS_13(X), X(f13)
#define TENURE_FIELDS_15(X) TENURE_FIELDS_14(X), X(f14)
#define TENURE_FIELDS_16(X) TENURE_FIELDS_15(X), X(f15)
#define TENURE_FIELDS_17(X) TENURE_FIELDS_16(X), X(f16)
#define TENURE_FIELDS_18(X) TENURE_FIELDS_17(X), X(f17)
#define TENURE_FIELDS_19(X) TENURE_FIELDS_18(X), X(f18)
#define TENURE_FIELDS_20(X) TENURE_FIELDS_19(X), X(f19)
#define TENURE_FIELDS_21(X) TENURE_FIELDS_20(X), X(f20)
#define TENURE_FIELDS_22(X) TENURE_FIELDS_21(X), X(f21)
#define TENURE_FIELDS_23(X) TENURE_FIELDS_22(X), X(f22)
#define TENURE_FIELDS_24(X) TENURE_FIELDS_23(X), X(f23)
#define TENURE_FIELDS_25(X) TENURE_FIELDS_24(X), X(f24)
#define TENURE_FIELDS_26(X) TENURE_FIELDS_25(X), X(f25)
#define TENURE_FIELDS_27(X) TENURE_FIELDS_26(X), X(f26)
#define TENURE_FIELDS_28(X) TENURE_FIELDS_27(X), X(f27)
#define TENURE_FIELDS_29(X) TENURE_FIELDS_28(X), X(f28)
#define TENURE_FIELDS_30(X) TENURE_FIELDS_29(X), X(f29)
#define TENURE_FIELDS_31(X) TENURE_FIELDS_30(X), X(f30)
#define TENURE_FIELDS_32(X) TENURE_FIELDS_31(X), X(f31)
#define TENURE_FIELDS_33(X) TENURE_FIELDS_32(X), X(f32)
#define TENURE_FIELDS_34(X) TENURE_FIELDS_33(X), X(f33)
#define TENURE_FIELDS_35(X) TENURE_FIELDS_34(X), X(f34)
#define TENURE_FIELDS_36(X) TENURE_FIELDS_35(X), X(f35)
#define TENURE_FIELDS_37(X) TENURE_FIELDS_36(X), X(f36)
#define TENURE_FIELDS_38(X) TENURE_FIELDS_37(X), X(f37)
#define TENURE_FIELDS_39(X) TENURE_FIELDS_38(X), X(f38)
#define TENURE_FIELDS_40(X) TENURE_FIELDS_39(X), X(f39)
#define TENURE_FIELDS_41(X) TENURE_FIELDS_40(X), X(f40)
#define TENURE_FIELDS_42(X) TENURE_FIELDS_41(X), X(f41)
#define TENURE_FIELDS_43(X) TENURE_FIELDS_42(X), X(f42)
#define TENURE_FIELDS_44(X) TENURE_FIELDS_43(X), X(f43)
#define TENURE_FIELDS_45(X) TENURE_FIELDS_44(X), X(f44)
#define TENURE_FIELDS_46(X) TENURE_FIELDS_45(X), X(f45)
#define TENURE_FIELDS_47(X) TENURE_FIELDS_46(X), X(f46)
#define TENURE_FIELDS_48(X) TENURE_FIELDS_47(X), X(f47)
#define TENURE_FIELDS_49(X) TENURE_FIELDS_48(X), X(f48)
#define TENURE_FIELDS_50(X) TENURE_FIELDS_49(X), X(f49)
#define TENURE_FIELDS_51(X) TENURE_FIELDS_50(X), X(f50)
#define TENURE_FIELDS_52(X) TENURE_FIELDS_51(X), X(f51)
#define TENURE_FIELDS_53(X) TENURE_FIELDS_52(X), X(f52)
#define TENURE_FIELDS_54(X) TENURE_FIELDS_53(X), X(f53)
#define TENURE_FIELDS_55(X) TENURE_FIELDS_54(X), X(f54)
#define TENURE_FIELDS_56(X) TENURE_FIELDS_55(X), X(f55)
#define TENURE_FIELDS_57(X) TENURE_FIELDS_56(X), X(f56)
#define TENURE_FIELDS_58(X) TENURE_FIELDS_57(X), X(f57)
#define TENURE_FIELDS_59(X) TENURE_FIELDS_58(X), X(f58)
#define TENURE_FIELDS_60(X) TENURE_FIELDS_59(X), X(f59)
#define TENURE_FIELDS_61(X) TENURE_FIELDS_60(X), X(f60)
#define TENURE_FIELDS_62(X) TENURE_FIELDS_61(X), X(f61)
#define TENURE_FIELDS_63(X) TENURE_FIELDS_62(X), X(f62)
#define TENURE_FIELDS_64(X) TENURE_FIELDS_63(X), X(f63)
#define TENURE_FIELDS_65(X) TENURE_FIELDS_64(X), X(f64)
// The formatter does not terminate on this macro.
// clang-format off
#define TENURE_EACH_FIELD_COUNT(CASE)                                     \
  CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)         \
  CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)  \
  CASE(17) CASE(18) CASE(19) CASE(20) CASE(21) CASE(22) CASE(23) CASE(24) \
  CASE(25) CASE(26) CASE(27) CASE(28) CASE(29) CASE(30) CASE(31) CASE(32) \
  CASE(33) CASE(34) CASE(35) CASE(36) CASE(37) CASE(38) CASE(39) CASE(40) \
  CASE(41) CASE(42) CASE(43) CASE(44) CASE(45) CASE(46) CASE(47) CASE(48) \
  CASE(49) CASE(50) CASE(51) CASE(52) CASE(53) CASE(54) CASE(55) CASE(56) \
  CASE(57) CASE(58) CASE(59) CASE(60) CASE(61) CASE(62) CASE(63) CASE(64)
// clang-format on
#define TENURE_NAME(f) f
#define TENURE_BRACES(f) \
  {}
#define TENURE_DECLTYPE(f) decltype(f)
#define TENURE_PLACE(f) place_of(f)

namespace tenure::detail {

inline constexpr std::size_t max_fields = 64;

// Stands for an initializer of any field of T, by value or as the target of a reference. Never evaluated.
template <class T>
struct any_value {
  explicit any_value(std::size_t);
  template <class V>
  requires(!std::is_same_v<std::remove_cvref_t<V>, T>) operator V() const;
};
template <class T>
struct any_place {
  explicit any_place(std::size_t);
  template <class V>
  requires(!std::is_same_v<std::remove_cvref_t<V>, T>) operator V&() const;
};
// Converts to base classes of T only.
template <class T>
struct any_base {
  template <class B>
  requires(std::is_base_of_v<B, T> && !std::is_same_v<B, T>) operator B() const;
};

template <class T>
concept has_base_to_initialize = requires {
  T{any_base<T>()};
};

// NOLINTBEGIN(bugprone-macro-parentheses): what the macros are given are lists and declarations.

// Whether T accepts N initializers `{}` followed by More.
template <class T, std::size_t N, class... More>
consteval bool takes_braces() {
#define TENURE_CASE(n)                                              \
  if constexpr (N == n) return requires {                           \
      T{TENURE_FIELDS_##n(TENURE_BRACES), std::declval<More>()...}; \
    };
  if constexpr (N == 0) return requires {
      T{std::declval<More>()...};
    };
  TENURE_EACH_FIELD_COUNT(TENURE_CASE)
  TENURE_CASE(65)
#undef TENURE_CASE
  return false;
}

template <class T, template <class> class Any, std::size_t... Before, std::size_t... Inside, std::size_t... After>
consteval bool takes_nested(std::index_sequence<Before...>, std::index_sequence<Inside...>,
                            std::index_sequence<After...>) {
  return requires { T{Any<T>(Before)..., {Any<T>(Inside)...}, Any<T>(After)...}; };
}
template <class T, template <class> class Any, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires { T{Any<T>(I)...}; };
}

// If `{}` does not initialize every field, initializers of any type are used. They count every element of an array,
// because braces may be omitted. `total` is their number, or 0 if there is none up to max_fields.
template <class T, template <class> class Any, std::size_t N = max_fields + 1>
consteval std::size_t total_initializers() {
  if constexpr (N == 0)
    return 0;
  else if constexpr (takes<T, Any>(std::make_index_sequence<N>()))
    return N > max_fields ? 0 : N;
  else
    return total_initializers<T, Any, N - 1>();
}
// The number of initializers, from number `First` on, that belong to one field: the most that one pair of braces
// accepts, if the remaining ones still suffice for the rest.
template <class T, template <class> class Any, std::size_t First, std::size_t Total, std::size_t Length>
consteval std::size_t initializers_of_field() {
  if constexpr (Length <= 1) {
    return 1;
  } else {
    constexpr std::size_t rest = Total - First - Length;
    constexpr auto before = std::make_index_sequence<First>();
    constexpr auto inside = std::make_index_sequence<Length>();
    if constexpr (takes_nested<T, Any>(before, inside, std::make_index_sequence<rest>()) &&
                  !takes_nested<T, Any>(before, inside, std::make_index_sequence<rest + 1>()))
      return Length;
    else
      return initializers_of_field<T, Any, First, Total, Length - 1>();
  }
}
template <class T, template <class> class Any, std::size_t Total, std::size_t First = 0>
consteval std::size_t fields_among_initializers() {
  if constexpr (First >= Total)
    return 0;
  else
    return 1 + fields_among_initializers<T, Any, Total,
                                         First + initializers_of_field<T, Any, First, Total, Total - First>()>();
}

template <class T, std::size_t N = 0>
consteval std::size_t count_by_braces() {
  if constexpr (N > max_fields || !takes_braces<T, N + 1>())
    return N;
  else
    return count_by_braces<T, N + 1>();
}

template <class T, std::size_t ByBraces>
consteval std::size_t count_fields_from() {
  // The number is right if even an initializer of any type cannot follow.
  if constexpr (takes_braces<T, ByBraces>() && !takes_braces<T, ByBraces, any_place<T>>() &&
                !takes_braces<T, ByBraces, any_value<T>>())
    return ByBraces;
  else if constexpr (constexpr std::size_t values = total_initializers<T, any_value>(); values != 0)
    return fields_among_initializers<T, any_value, values>();
  else if constexpr (constexpr std::size_t places = total_initializers<T, any_place>(); places != 0)
    return fields_among_initializers<T, any_place, places>();
  else
    return 0;
}
// The number of fields of an aggregate without bases. 0 if there are none, too many, or if they cannot be counted.
template <class T>
consteval std::size_t count_fields() {
  constexpr std::size_t by_braces = count_by_braces<T>();
  if constexpr (by_braces > max_fields)
    return 0;
  else
    return count_fields_from<T, by_braces>();
}

template <class...>
struct type_list {};

// The declared types of the fields.
template <class T, std::size_t N = count_fields<T>()>
constexpr auto types_of_fields([[maybe_unused]] T& object) {
#define TENURE_CASE(n)                                      \
  if constexpr (N == n) {                                   \
    auto& [TENURE_FIELDS_##n(TENURE_NAME)] = object;        \
    return type_list<TENURE_FIELDS_##n(TENURE_DECLTYPE)>(); \
  } else
  TENURE_EACH_FIELD_COUNT(TENURE_CASE)
#undef TENURE_CASE
  return type_list<>();
}

// A bit-field is copied on its way into this function, so that the result is outside of the object.
template <class F>
constexpr const F* place_of(const F& field) {
  return std::addressof(field);
}

// Returns the result of use(pointer to each field...).
template <class T, class Use, std::size_t N = count_fields<T>()>
constexpr auto use_fields([[maybe_unused]] const T& object, Use use) {
#define TENURE_CASE(n)                                     \
  if constexpr (N == n) {                                  \
    const auto& [TENURE_FIELDS_##n(TENURE_NAME)] = object; \
    return use(TENURE_FIELDS_##n(TENURE_PLACE));           \
  } else
  TENURE_EACH_FIELD_COUNT(TENURE_CASE)
#undef TENURE_CASE
  return use();
}

// NOLINTEND(bugprone-macro-parentheses)

// An object of any type that exists only for the compiler, to take the addresses of its fields.
template <class T>
struct phantom_object {
  T value;
};
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
template <class T>
extern const phantom_object<T> phantom;

// Returns the pointer that follows Skip others.
template <class Skip>
struct pointer_behind;
template <std::size_t... Skip>
struct pointer_behind<std::index_sequence<Skip...>> {
  template <class F>
  static constexpr const F* get(decltype((const void*)Skip)..., const F* field, ...) {
    return field;
  }
  template <class... F>
  constexpr auto operator()(const F*... fields) const {
    return get(fields...);
  }
};
template <class T, std::size_t I>
consteval auto phantom_field() {
  return use_fields(phantom<T>.value, pointer_behind<std::make_index_sequence<I>>());
}
struct use_nothing {
  constexpr bool operator()(const auto*...) const { return true; }
};
// Whether all fields have addresses. A bit-field has none: copying one of a phantom object is no constant expression.
template <class T>
concept fields_have_addresses = requires {
  typename std::bool_constant<use_fields(phantom<T>.value, use_nothing())>;
};
#if defined(__clang__)
#pragma clang diagnostic pop
#endif

}  // namespace tenure::detail

#undef TENURE_FIELDS_1
#undef TENURE_FIELDS_2
#undef TENURE_FIELDS_3
#undef TENURE_FIELDS_4
#undef TENURE_FIELDS_5
#undef TENURE_FIELDS_6
#undef TENURE_FIELDS_7
#undef TENURE_FIELDS_8
#undef TENURE_FIELDS_9
#undef TENURE_FIELDS_10
#undef TENURE_FIELDS_11
#undef TENURE_FIELDS_12
#undef TENURE_FIELDS_13
#undef TENURE_FIELDS_14
#undef TENURE_FIELDS_15
#undef TENURE_FIELDS_16
#undef TENURE_FIELDS_17
#undef TENURE_FIELDS_18
#undef TENURE_FIELDS_19
#undef TENURE_FIELDS_20
#undef TENURE_FIELDS_21
#undef TENURE_FIELDS_22
#undef TENURE_FIELDS_23
#undef TENURE_FIELDS_24
#undef TENURE_FIELDS_25
#undef TENURE_FIELDS_26
#undef TENURE_FIELDS_27
#undef TENURE_FIELDS_28
#undef TENURE_FIELDS_29
#undef TENURE_FIELDS_30
#undef TENURE_FIELDS_31
#undef TENURE_FIELDS_32
#undef TENURE_FIELDS_33
#undef TENURE_FIELDS_34
#undef TENURE_FIELDS_35
#undef TENURE_FIELDS_36
#undef TENURE_FIELDS_37
#undef TENURE_FIELDS_38
#undef TENURE_FIELDS_39
#undef TENURE_FIELDS_40
#undef TENURE_FIELDS_41
#undef TENURE_FIELDS_42
#undef TENURE_FIELDS_43
#undef TENURE_FIELDS_44
#undef TENURE_FIELDS_45
#undef TENURE_FIELDS_46
#undef TENURE_FIELDS_47
#undef TENURE_FIELDS_48
#undef TENURE_FIELDS_49
#undef TENURE_FIELDS_50
#undef TENURE_FIELDS_51
#undef TENURE_FIELDS_52
#undef TENURE_FIELDS_53
#undef TENURE_FIELDS_54
#undef TENURE_FIELDS_55
#undef TENURE_FIELDS_56
#undef TENURE_FIELDS_57
#undef TENURE_FIELDS_58
#undef TENURE_FIELDS_59
#undef TENURE_FIELDS_60
#undef TENURE_FIELDS_61
#undef TENURE_FIELDS_62
#undef TENURE_FIELDS_63
#undef TENURE_FIELDS_64
#undef TENURE_FIELDS_65
#undef TENURE_EACH_FIELD_COUNT
#undef TENURE_NAME
#undef TENURE_BRACES
#undef TENURE_DECLTYPE
#undef TENURE_PLACE
