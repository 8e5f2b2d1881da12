// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "types/numbers.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tenure::types {
namespace {

enum class form { none, with_sign, without_sign, enumeration, floating };

form form_of(number_type of) {
  switch (of.kind) {
    case scalar_kind::boolean: return of.size == 1 ? form::without_sign : form::none;
    case scalar_kind::signed_integer: return of.size <= 8 ? form::with_sign : form::none;
    case scalar_kind::unsigned_integer: return of.size <= 8 ? form::without_sign : form::none;
    case scalar_kind::enumeration: return of.size <= 8 ? form::enumeration : form::none;
    case scalar_kind::floating:
      return of.size == sizeof(float) || of.size == sizeof(double) || of.size == sizeof(long double) ? form::floating
                                                                                                     : form::none;
    case scalar_kind::none:
    case scalar_kind::character:  // see number_of()
    case scalar_kind::text: return form::none;
  }
  return form::none;
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Every integer of at most 64 bits.
struct integer {
  bool is_negative = false;
  std::uint64_t bits = 0;  // in two's complement
};

integer read_integer(const std::byte* at, std::uint64_t size, bool has_sign) {
  std::uint64_t bits = 0;  // little-endian: the first bytes are the low ones
  std::memcpy(&bits, at, size);
  if (!has_sign || size == 0 || (bits >> (8 * size - 1) & 1) == 0) return {false, bits};
  if (size < 8) bits |= ~std::uint64_t{0} << (8 * size);
  return {true, bits};
}

long double read_floating(const std::byte* at, std::uint64_t size) {
  if (size == sizeof(float)) return read<float>(at);
  return size == sizeof(double) ? read<double>(at) : read<long double>(at);
}

template <class T>
bool write_floating_as(long double value, std::byte* into) {
  const T narrow = static_cast<T>(value);
  if (static_cast<long double>(narrow) != value && !std::isnan(value)) return false;
  std::memcpy(into, &narrow, sizeof narrow);
  return true;
}

bool write_floating(long double value, std::uint64_t size, std::byte* into) {
  if (size == sizeof(float)) return write_floating_as<float>(value, into);
  return size == sizeof(double) ? write_floating_as<double>(value, into) : write_floating_as<long double>(value, into);
}

bool write_integer(integer value, number_type to, std::byte* into) {
  const std::uint64_t size = to.size;
  const bool has_sign = form_of(to) != form::without_sign;
  if (to.kind == scalar_kind::boolean && (value.is_negative || value.bits > 1)) return false;
  const integer fits = [&]() -> integer {
    std::byte bytes[8];
    std::memcpy(bytes, &value.bits, sizeof bytes);
    return read_integer(bytes, size, has_sign);
  }();
  if (fits.bits != value.bits || fits.is_negative != value.is_negative) return false;
  std::memcpy(into, &value.bits, size);
  return true;
}

long double as_floating(integer value) {
  return value.is_negative ? static_cast<long double>(static_cast<std::int64_t>(value.bits))
                           : static_cast<long double>(value.bits);
}

// Whether it is a whole number of 64 bits.
bool as_integer(long double value, integer& to) {
  constexpr long double end = 18446744073709551616.0L, least = -9223372036854775808.0L;
  if (!(value >= least && value < end) || std::trunc(value) != value) return false;
  to = value < 0 ? integer{true, static_cast<std::uint64_t>(static_cast<std::int64_t>(value))}
                 : integer{false, static_cast<std::uint64_t>(value)};
  return true;
}

unsigned digits_of(number_type floating) {
  return floating.size == sizeof(float) ? std::numeric_limits<float>::digits : std::numeric_limits<double>::digits;
}

}  // namespace

number_type number_of(scalar_kind kind, std::uint64_t size, std::string_view type_name) {
  if (kind != scalar_kind::character) return {kind, size};
  const auto is = [&](std::string_view name) { return type_name.find(name) != std::string_view::npos; };
  const bool has_sign = is("wchar_t")                                       ? std::is_signed_v<wchar_t>
                        : is("char8_t") || is("char16_t") || is("char32_t") ? false
                                                                            : std::is_signed_v<char>;
  return {has_sign ? scalar_kind::signed_integer : scalar_kind::unsigned_integer, size};
}

bool is_number(number_type of) { return form_of(of) != form::none; }

bool is_widening(number_type from, number_type to) {
  const form is = form_of(from), becomes = form_of(to);
  if (is == form::none || becomes == form::none || to.kind == scalar_kind::boolean) return from == to;
  if (becomes == form::floating)
    return is == form::floating ? to.size >= from.size : is != form::enumeration && from.size * 8 <= digits_of(to);
  if (is == form::floating) return false;
  if (is == becomes) return to.size >= from.size;
  if (is == form::enumeration || becomes == form::enumeration) return to.size >= from.size;
  return is == form::without_sign && (to.size > from.size || from.kind == scalar_kind::boolean);
}

bool convert_number(number_type from, const std::byte* at, number_type to, std::byte* into) {
  const form is = form_of(from), becomes = form_of(to);
  if (is == form::floating) {
    const long double value = read_floating(at, from.size);
    if (becomes == form::floating) return write_floating(value, to.size, into);
    integer whole;
    return as_integer(value, whole) && write_integer(whole, to, into);
  }
  if (is == form::enumeration && becomes != form::floating && from.size == to.size && to.kind != scalar_kind::boolean) {
    std::memcpy(into, at, to.size);
    return true;
  }
  const integer value = read_integer(at, from.size, is != form::without_sign);
  if (is == form::enumeration && value.is_negative) return false;
  if (becomes == form::floating) return write_floating(as_floating(value), to.size, into);
  if (becomes == form::enumeration && from.size == to.size) {
    std::memcpy(into, at, to.size);
    return true;
  }
  return write_integer(value, to, into);
}

}  // namespace tenure::types
