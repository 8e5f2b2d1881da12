// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of classes that name their members and bases, with their vtable pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tenure/detail/types_names.hpp>
#include <tenure/detail/types_rules.hpp>
#include <tenure/type.hpp>

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// An object in scratch memory that was filled with a byte before; gone with this.
template <class T>
class prototype_object {
 public:
  explicit prototype_object(unsigned char filling) {
    std::memset(memory_, filling, sizeof(T));
    if constexpr (has_prototype_function<T>)
      persist<T>::prototype(static_cast<void*>(memory_));
    else if constexpr (std::is_constructible_v<T, prototype_tag>)
      ::new (static_cast<void*>(memory_)) T(prototype_tag());
    else
      ::new (static_cast<void*>(memory_)) T;
  }
  ~prototype_object() {
    if constexpr (std::is_destructible_v<T>) object()->~T();
    ::operator delete(memory_, std::align_val_t(alignof(T)));
  }
  prototype_object(const prototype_object&) = delete;
  prototype_object& operator=(const prototype_object&) = delete;

  [[nodiscard]] T* object() { return std::launder(reinterpret_cast<T*>(memory_)); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_, sizeof(T)}; }

 private:
  std::byte* memory_ = static_cast<std::byte*>(::operator new(sizeof(T), std::align_val_t(alignof(T))));
};

// What a class is made of, with the bases' parts among its own.
struct class_parts {
  std::vector<field> fields;
  std::vector<std::uint64_t> vtables;                          // offsets of vtable pointers
  std::vector<std::pair<std::string, std::uint64_t>> visited;  // a virtual base is met on several ways
};

template <class B, class T>
void add_base(class_parts& parts, const B* base, const T* object);

template <class C, auto M>
void add_listed_member(std::vector<field>& to, const std::string& prefix, std::uint64_t offset) {
  using listed = listed_member<M>;
  const std::size_t before = to.size();
  add_field<typename listed::type>(to, prefix + std::string(name_of_member<listed::pointer>()),
                                   offset + offset_of_member<C, M>());
  if constexpr (listed::is_derived)
    for (std::size_t i = before; i < to.size(); ++i) to[i].kind = field_kind::derived;
}

// The members of `at`, which is `object` or a base in it, and its bases.
template <class C, class T, class... B, auto... M>
void add_class(class_parts& parts, const C* at, const T* object, bases<B...>, members<M...>) {
  static_assert((true && ... && std::is_base_of_v<B, C>), "tenure: bases<> lists a class that is no base");
  const std::uint64_t offset = detail::distance(object, at);
  if constexpr (has_vtable_pointer<C>()) parts.vtables.push_back(offset);
  (add_base(parts, (const B*)at, object), ...);  // the cast looks through private inheritance
  const std::string prefix = std::is_same_v<C, T> ? "" : readable_name(typeid(C)) + "::";
  (add_listed_member<C, M>(parts.fields, prefix, offset), ...);
}

template <class C, class... F, std::size_t... I>
void add_aggregate_fields(std::vector<field>& to, const std::string& prefix, std::uint64_t offset, const C* at,
                          type_list<F...>, std::index_sequence<I...>) {
  ((void)require_persistable<F>(), ...);  // before more is asked of the fields than they can answer
  if constexpr ((true && ... && (own_obstacle<F>() == obstacle::none))) {
    const auto pointers = pointers_to_fields(*at);
    (add_field<F>(to, prefix + std::string(name_of_field<C, I>()),
                  offset + detail::distance(at, std::get<I>(pointers))),
     ...);
  }
}
template <class C>
void add_aggregate(std::vector<field>& to, const std::string& prefix, std::uint64_t offset, const C* at) {
  add_aggregate_fields(to, prefix, offset, at, decltype(types_of_fields(std::declval<C&>()))(),
                       std::make_index_sequence<count_fields<C>()>());
}

template <class B, class T>
void add_base(class_parts& parts, const B* base, const T* object) {
  if constexpr (!std::is_empty_v<B>) {
    std::pair<std::string, std::uint64_t> visit{readable_name(typeid(B)), detail::distance(object, base)};
    for (const auto& earlier : parts.visited)
      if (earlier == visit) return;
    if constexpr (shape_of<B>() == shape::trait)
      add_class(parts, base, object, typename trait_of<B>::bases(), typename trait_of<B>::members());
    else if constexpr (shape_of<B>() == shape::aggregate)
      add_aggregate(parts.fields, visit.first + "::", visit.second, base);
    else
      add_field<B>(parts.fields, visit.first, visit.second);
    parts.visited.push_back(std::move(visit));
  }
}

// Sorts the vtable pointers and makes fields of them.
void add_vtable_fields(class_parts& parts);
// The words at the vtable pointers of two objects that were made over different bytes: the process's vtables. Throws
// errc::bad_type if they are not equal or not in a loaded module's constant data, or if `t` leaves out a word that is.
[[nodiscard]] std::vector<const void*> vtables_in(const type& t, std::span<const std::byte> one,
                                                  std::span<const std::byte> other);

template <class T>
class_parts parts_of_class() {
  class_parts parts;
  const auto add = [&](const T* object) {
    add_class(parts, object, object, typename trait_of<T>::bases(), typename trait_of<T>::members());
  };
  // Where a virtual base is says the object only.
  if constexpr (has_virtual_base<T>()) {
    prototype_object<T> prototype(0xAA);
    add(prototype.object());
  } else {
    add(static_cast<const T*>(nowhere()));
  }
  add_vtable_fields(parts);
  return parts;
}

template <class T>
const std::vector<const void*>& vtables_of() {
  static const std::vector<const void*>* const found = [] {
    const prototype_object<T> one(0xAA), other(0x55);
    return new std::vector<const void*>(vtables_in(type_of<T>(), one.bytes(), other.bytes()));
  }();
  return *found;
}

#pragma GCC visibility pop

}  // namespace tenure::detail
