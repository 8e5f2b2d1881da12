// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of classes that name their members and bases, with their vtable pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tenure/types/detail/facts.hpp>
#include <tenure/types/detail/names.hpp>
#include <tenure/types/detail/rules.hpp>
#include <tenure/types/type.hpp>

namespace tenure::detail {

#pragma GCC visibility push(default)  // libtenure.so exports it

// While one exists, containers of this thread get memory of the program: what they are in is in no store, and whoever makes it may have
// locks of one.
class prototype_memory {
 public:
  prototype_memory() noexcept;
  ~prototype_memory();
  prototype_memory(const prototype_memory&) = delete;
  prototype_memory& operator=(const prototype_memory&) = delete;
  [[nodiscard]] static bool is_used() noexcept;
};

// An object in scratch memory that was filled with a byte before. Destroyed together with this.
template <class T>
class prototype_object {
 public:
  explicit prototype_object(unsigned char filling) {
    const prototype_memory of_containers;
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
  [[nodiscard]] const std::byte* bytes() const { return memory_; }

 private:
  std::byte* memory_ = static_cast<std::byte*>(::operator new(sizeof(T), std::align_val_t(alignof(T))));
};

// Names, each followed by a zero.
template <std::size_t Size>
struct joined_names {
  char text[Size];
};
consteval char* put_name(char* to, std::string_view name) {
  for (const char c : name) *to++ = c;
  return to + 1;
}
template <auto... Pointers>
consteval auto names_of_members() {
  joined_names<(1 + ... + (name_of_member<Pointers>().size() + 1))> names{};
  [[maybe_unused]] char* to = names.text;
  ((to = put_name(to, name_of_member<Pointers>())), ...);
  return names;
}
template <class T, std::size_t... I>
consteval auto names_of_fields(std::index_sequence<I...>) {
  joined_names<(1 + ... + (name_of_field<T, I>().size() + 1))> names{};
  char* to = names.text;
  ((to = put_name(to, name_of_field<T, I>())), ...);
  return names;
}

// nullptr if values of type M have no bytes (fields.hpp).
template <class M>
consteval const field_facts* facts_or_none();
template <class C>
void add_class(class_parts& parts, const void* at);

template <class B>
consteval listed_base base_in_list() {
  if constexpr (std::is_empty_v<B>)
    return {};
  else if constexpr (shape_of<B>() == shape::trait || shape_of<B>() == shape::aggregate)
    return {&typeid(B), &add_class<B>, nullptr};
  else
    return {&typeid(B), nullptr, facts_or_none<B>()};
}

template <class C, class... B>
void add_bases(class_parts& parts, const C* at, bases<B...>) {
  static_assert((true && ... && std::is_base_of_v<B, C>), "tenure: bases<> lists a class that is no base");
  if constexpr (sizeof...(B) != 0) {
    static constexpr listed_base list[] = {base_in_list<B>()...};
    const void* const places[] = {(const B*)at...};  // a C cast, because the inheritance may be private
    add_known_bases(parts, list, places, sizeof...(B));
  }
}
template <class C, auto... M>
void add_members(class_parts& parts, const C* at, members<M...>) {
  if constexpr (sizeof...(M) != 0) {
    static constexpr listed_field list[] = {
        {facts_or_none<typename listed_member<M>::type>(), listed_member<M>::is_derived}...};
    static constexpr auto names = names_of_members<listed_member<M>::pointer...>();
    const std::uint64_t offsets[] = {offset_of_member<C, M>()...};
    add_known_members(parts, typeid(C), at, list, names.text, offsets, sizeof...(M));
  }
}
template <class C, class... F>
void add_fields(class_parts& parts, const C* at, type_list<F...>) {
  ((void)require_persistable<F>(), ...);  // checked first, because what follows needs it
  if constexpr ((true && ... && (own_obstacle<F>() == obstacle::none))) {
    static constexpr listed_field list[] = {{facts_or_none<F>(), false}...};
    static constexpr auto names = names_of_fields<C>(std::index_sequence_for<F...>());
    use_fields(*at, [&](const auto*... fields) {
      const std::uint64_t offsets[] = {detail::distance(at, fields)...};
      add_known_members(parts, typeid(C), at, list, names.text, offsets, sizeof...(F));
    });
  }
}

template <class C>
void add_class(class_parts& parts, const void* place) {
  const C* const at = static_cast<const C*>(place);
  if constexpr (shape_of<C>() == shape::trait) {
    if constexpr (has_vtable_pointer<C>()) add_vtable(parts, at);
    add_bases(parts, at, typename trait_of<C>::bases());
    add_members(parts, at, typename trait_of<C>::members());
  } else {
    add_fields(parts, at, decltype(types_of_fields(std::declval<C&>()))());
  }
}

// The place of a virtual base can be read only from an object.
template <class T>
void describe_with_prototype(type& t) {
  prototype_object<T> prototype(0xAA);
  describe_class(t, typeid(T), &add_class<T>, prototype.object());
}

// Reads the words at the vtable pointers of two objects that were made over different bytes. They are the process's
// vtables. Throws errc::bad_type if they differ or are not in a loaded module's constant data, or if `t` omits such a
// word.
[[nodiscard]] std::vector<const void*> vtables_in(const type& t, const std::byte* one, const std::byte* other);

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
