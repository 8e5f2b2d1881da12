// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Which types can persist, and how exactly they are known. The compile-time messages for programmers are here.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tenure/types/detail/decompose.hpp>
#include <tenure/types/detail/names.hpp>
#include <tenure/types/detail/reference_words.hpp>
#include <tenure/types/detail/standard.hpp>
#include <tenure/types/detail/trait.hpp>
#include <tenure/types/field.hpp>
#include <tenure/types/transient.hpp>

namespace tenure::detail {

// The source of a type's description.
enum class shape {
  scalar,  // numbers, enumerations, pointers
  array,
  transient,
  trait,      // the class describes itself
  standard,   // a known class of the standard library
  plain,      // certainly has no pointers
  aggregate,  // the compiler finds the fields
  opaque,     // unknown: every word may be a pointer
};

// Why a type cannot persist.
enum class obstacle {
  none,
  reference,
  volatile_type,
  function,
  member_pointer,
  compiler_type,
  no_name,
  callable,
  owning_pointer,
  thread,
  lock,
  view,
  container,
  other_memory,
  process_only,
  polymorphic,
  prototype,
  hidden_vtable,
};

template <class T>
inline constexpr bool is_transient = false;
template <class T>
inline constexpr bool is_transient<transient<T>> = true;

// Classes of the standard library, recognized by name, so that their headers need not be included.
template <class T>
consteval bool is_plain_by_name() {
  if (std::is_empty_v<T>) return true;
  if (!is_of_standard_library<T>() || !std::is_trivially_copyable_v<T>) return false;
  for (const std::string_view begin :
       {"chrono::duration<", "chrono::time_point<", "complex<", "bitset<", "linear_congruential_engine<",
        "mersenne_twister_engine<", "subtract_with_carry_engine<", "atomic_flag", "byte"})
    if (compiler_name_of_type<T>().starts_with(begin)) return true;
  return false;
}

consteval bool begins_with_one_of(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  for (const std::string_view begin : beginnings)
    if (name.starts_with(begin)) return true;
  return false;
}

template <class T>
consteval obstacle obstacle_by_name() {
  if (!is_of_standard_library<T>()) return obstacle::none;
  constexpr std::string_view name = compiler_name_of_type<T>();
  if (begins_with_one_of(name, {"unique_ptr<", "shared_ptr<", "weak_ptr<", "auto_ptr<"}))
    return obstacle::owning_pointer;
  if (begins_with_one_of(name, {"function<", "move_only_function<", "packaged_task<"})) return obstacle::callable;
  if (begins_with_one_of(name, {"thread", "jthread", "future<", "shared_future<", "promise<", "stop_source",
                                "stop_token", "coroutine_handle<"}))
    return obstacle::thread;
  if (begins_with_one_of(name, {"mutex", "timed_mutex", "recursive_mutex", "recursive_timed_mutex", "shared_mutex",
                                "shared_timed_mutex", "condition_variable", "once_flag", "lock_guard<", "unique_lock<",
                                "shared_lock<", "scoped_lock<", "latch", "barrier<", "counting_semaphore<"}))
    return obstacle::lock;
  if (begins_with_one_of(name, {"basic_string_view<", "span<", "initializer_list<", "reference_wrapper<"}))
    return obstacle::view;
  if (begins_with_one_of(name, {"basic_string<", "vector<", "deque<", "list<", "forward_list<", "map<", "set<",
                                "multimap<", "multiset<", "unordered_map<", "unordered_set<", "unordered_multimap<",
                                "unordered_multiset<", "stack<", "queue<", "priority_queue<"}))
    return obstacle::container;
  if (begins_with_one_of(name, {"any", "filesystem::", "basic_regex<", "match_results<", "valarray<", "pmr::"}))
    return obstacle::other_memory;
  if (begins_with_one_of(name, {"error_code", "error_condition", "type_index", "locale", "__exception_ptr::"}))
    return obstacle::process_only;
  return obstacle::none;
}

template <class T>
consteval bool can_be_taken_apart() {
  if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T> && !std::is_polymorphic_v<T>)
    return !has_base_to_initialize<T> && count_fields<T>() != 0;
  else
    return false;
}

template <class... Fields>
consteval bool has_reference_or_volatile(type_list<Fields...>) {
  return (false || ... || (std::is_reference_v<Fields> || std::is_volatile_v<Fields>));
}

// The shape of a type without const and volatile.
template <class T>
consteval shape shape_of() {
  if constexpr (is_field<T>) {
    return shape_of<typename without_field<T>::type>();
  } else if constexpr (std::is_array_v<T>) {
    return shape::array;
  } else if constexpr ((!std::is_class_v<T> && !std::is_union_v<T>) || reference_word<T>::is) {
    return shape::scalar;
  } else if constexpr (is_transient<T>) {
    return shape::transient;
  } else if constexpr (has_trait<T>) {
    return shape::trait;
  } else if constexpr (is_standard<T>) {
    return standard<T>::exact ? shape::standard : shape::opaque;
  } else if constexpr (is_plain_by_name<T>()) {
    return shape::plain;
  } else if constexpr (can_be_taken_apart<T>()) {
    if constexpr (has_reference_or_volatile(decltype(types_of_fields(std::declval<T&>()))()))
      return shape::aggregate;  // no addresses are needed, because it cannot persist
    else
      return fields_have_addresses<T> ? shape::aggregate : shape::opaque;
  } else {
    return shape::opaque;
  }
}

// The types that are in T itself, not behind a pointer.
template <class T>
consteval auto components_of() {
  constexpr shape s = shape_of<T>();
  if constexpr (is_field<T>)
    return components_of<typename without_field<T>::type>();
  else if constexpr (s == shape::array)
    return type_list<std::remove_all_extents_t<T>>();
  else if constexpr (s == shape::standard)
    return typename standard<T>::components();
  else if constexpr (s == shape::aggregate)
    return decltype(types_of_fields(std::declval<T&>()))();
  else if constexpr (s == shape::trait)
    return []<class... B, auto... M>(bases<B...>, members<M...>) {
      return type_list<B..., typename listed_member<M>::type...>();
    }
  (typename trait_of<T>::bases(), typename trait_of<T>::members());
  else if constexpr (s == shape::opaque && !is_standard<T> && can_be_taken_apart<T>()) return decltype(types_of_fields(
      std::declval<T&>()))();  // some fields are bit-fields
  else return type_list<>();
}

// Whether objects of the type have vtable pointers, as far as the compiler can tell.
template <class T>
consteval bool has_vtable_inside();
template <class... C>
consteval bool any_has_vtable_inside(type_list<C...>) {
  return (false || ... || has_vtable_inside<std::remove_cv_t<C>>());
}
template <class T>
consteval bool has_vtable_inside() {
  if constexpr (is_field<T>)
    return has_vtable_inside<typename without_field<T>::type>();
  else if constexpr (!std::is_array_v<T> && !std::is_class_v<T> && !std::is_union_v<T>)
    return false;
  else if constexpr (std::is_polymorphic_v<T>)
    return true;
  else
    return any_has_vtable_inside(components_of<T>());
}

// The obstacle for objects to which a pointer refers, as far as it can be found for types that may be incomplete.
template <class T>
consteval obstacle obstacle_behind_pointer() {
  using bare = std::remove_cv_t<T>;
  if constexpr (std::is_pointer_v<bare>)
    return obstacle_behind_pointer<std::remove_pointer_t<bare>>();
  else if constexpr (std::is_function_v<bare>)
    return obstacle::function;
  else if constexpr (std::is_class_v<bare> && !has_persist<bare> && !is_standard<bare>)
    return obstacle_by_name<bare>();
  else
    return obstacle::none;
}

// A number that can be compared: not one of `_Complex`, nor of a compiler's vector type.
template <class T>
concept is_plain_number = requires(T one, T other) {
  { one < other } -> std::same_as<bool>;
};

// The obstacle for T itself, without its components.
template <class T>
consteval obstacle own_obstacle() {
  if constexpr (is_field<T>)
    return own_obstacle<typename without_field<T>::type>();
  else if constexpr (std::is_reference_v<T>)
    return obstacle::reference;
  else if constexpr (std::is_volatile_v<T>)
    return obstacle::volatile_type;
  else if constexpr (std::is_function_v<T>)
    return obstacle::function;
  else if constexpr (std::is_const_v<T>)
    return own_obstacle<std::remove_const_t<T>>();
  else if constexpr (std::is_member_pointer_v<T>)
    return obstacle::member_pointer;
  else if constexpr (std::is_pointer_v<T>)
    return obstacle_behind_pointer<std::remove_pointer_t<T>>();
  else if constexpr (reference_word<T>::is)
    return obstacle_behind_pointer<typename reference_word<T>::target>();
  else if constexpr (std::is_enum_v<T>)
    return has_no_lasting_name<T>() ? obstacle::no_name : obstacle::none;
  else if constexpr (is_transient<T>)
    return obstacle::none;
  else if constexpr (!std::is_class_v<T> && !std::is_union_v<T>)
    return std::is_scalar_v<T> || std::is_array_v<T> || std::is_void_v<T> || is_plain_number<T>
               ? obstacle::none
               : obstacle::compiler_type;
  else if constexpr (has_no_lasting_name<T>())
    return obstacle::no_name;
  else if constexpr (has_trait<T>)
    return has_vtable_pointer<T>() && !std::is_abstract_v<T> && !can_make_prototype<T> ? obstacle::prototype
                                                                                       : obstacle::none;
  else if constexpr (!is_standard<T> && obstacle_by_name<T>() != obstacle::none)
    return obstacle_by_name<T>();
  else if constexpr (!is_standard<T> && std::is_polymorphic_v<T>)
    return obstacle::polymorphic;
  else
    return shape_of<T>() == shape::opaque && has_vtable_inside<T>() ? obstacle::hidden_vtable : obstacle::none;
}

template <class T>
consteval obstacle obstacle_of();
template <class... C>
consteval obstacle first_obstacle(type_list<C...>) {
  obstacle found = obstacle::none;
  (void)(false || ... || ((found = obstacle_of<C>()) != obstacle::none));
  return found;
}
template <class T>
consteval obstacle obstacle_of() {
  if constexpr (own_obstacle<T>() != obstacle::none)
    return own_obstacle<T>();
  else
    return first_obstacle(components_of<std::remove_const_t<T>>());
}

// Whether a value of this size and alignment can hold a pointer at a place where pointers are looked for.
template <class T>
inline constexpr bool has_room_for_pointer = sizeof(T) >= sizeof(void*) && alignof(T) >= alignof(void*);

template <class T>
consteval bool exact_of();
template <class... C>
consteval bool all_exact(type_list<C...>) {
  return (true && ... && exact_of<C>());
}
template <class T>
consteval bool exact_of() {
  using bare = std::remove_cvref_t<T>;
  if constexpr (shape_of<bare>() == shape::opaque)
    return !has_room_for_pointer<bare>;
  else
    return all_exact(components_of<bare>());
}

// Fails to compile, with one sentence, if T itself cannot persist. The components of T are checked when they are
// described, so that the compiler's message shows how it came to them.
template <class T>
consteval bool require_persistable() {
  constexpr obstacle o = own_obstacle<T>();
  static_assert(o != obstacle::reference, "tenure: a reference cannot persist: make it a pointer");
  static_assert(
      o != obstacle::volatile_type,
      "tenure: a volatile value cannot persist: leave out `volatile`, or make it std::atomic or tenure::transient");
  static_assert(
      o != obstacle::function,
      "tenure: a function pointer cannot persist, because the code is elsewhere in the next process: store a number "
      "or a name to find the function by, use a virtual function, or make it tenure::transient");
  static_assert(
      o != obstacle::member_pointer,
      "tenure: a pointer to a member cannot persist, because it means something else after the class has changed: "
      "store a number or a name to find the member by, or make it tenure::transient");
  static_assert(o != obstacle::compiler_type,
                "tenure: `_Complex` and a compiler's vector types cannot persist: use std::complex, or an array");
  static_assert(
      o != obstacle::no_name,
      "tenure: a lambda, or a type without a name or in an anonymous namespace, cannot persist, because no other "
      "program can mean the same: give it a name, in a named namespace");
  static_assert(
      o != obstacle::callable,
      "tenure: std::function and its like cannot persist, because they hold code: store a number or a name to find "
      "the function by, use a class with a virtual function, or make it tenure::transient");
  static_assert(
      o != obstacle::owning_pointer,
      "tenure: unique_ptr, shared_ptr and weak_ptr cannot persist, because they and the store would both decide "
      "about the object's life: use a plain pointer, reachability keeps the object alive");
  static_assert(
      o != obstacle::thread,
      "tenure: threads, futures and coroutines cannot persist, because they end with the process: leave it out of "
      "the object, or keep a tenure::transient pointer to it");
  static_assert(
      o != obstacle::lock,
      "tenure: mutexes, locks and condition variables cannot persist, because they end with the process: keep them "
      "outside of the store, or make it tenure::transient");
  static_assert(
      o != obstacle::view,
      "tenure: string_view, span and reference_wrapper cannot persist, because they refer to memory that is not the "
      "store's as a rule: use tenure::string or tenure::vector, or a plain pointer into an object of the store");
  static_assert(o != obstacle::container,
                "tenure: this container cannot persist, because its memory is not the store's: use tenure::string, "
                "tenure::vector and the like, or the standard containers with tenure::allocator");
  static_assert(
      o != obstacle::other_memory,
      "tenure: this class of the standard library cannot persist, because its memory is not the store's: store "
      "what it is made of, or make it a tenure::transient pointer");
  static_assert(
      o != obstacle::process_only,
      "tenure: this class of the standard library cannot persist, because it refers to things of this process: "
      "store a number or a name instead, or make it tenure::transient");
  static_assert(
      o != obstacle::polymorphic,
      "tenure: a class with virtual functions can persist only if it says which members and bases it has: see "
      "tenure::members and tenure::bases in <tenure/types/persist.hpp>");
  static_assert(
      o != obstacle::prototype,
      "tenure: objects of a class with virtual functions or virtual bases are made once to look at their vtable "
      "pointers: give the class a default constructor, a constructor that takes a tenure::prototype_tag, or a "
      "function tenure::persist<C>::prototype(void* memory)");
  static_assert(
      o != obstacle::hidden_vtable,
      "tenure: a class with bit-fields that has a member with virtual functions can persist only if it says "
      "which members "
      "it has, because nobody knows where that member lies: see tenure::members in <tenure/types/persist.hpp>");
  return o == obstacle::none;
}

}  // namespace tenure::detail
