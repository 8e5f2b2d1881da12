// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What has changed in a class since objects of it were stored. A store that has it in another layout is converted when it is
// opened with store_options::evolve, as a whole, before the program sees it.
//
//     template <>
//     struct tenure::evolve<part> {
//       static void describe(tenure::changes<part>& of) {
//         of.was_named("component");
//         of.since(1).renamed("weight", "mass").renamed("x", "where.x").removed("color");
//         of.since(2).added("count", 1).converted([](const tenure::old_object& was, part& is, tenure::conversion&) {
//           is.area = was.get<double>("width") * was.get<double>("height");
//         });
//       }
//     };
//
// Nothing need be said of fields that are there as before, in any order, of numbers that have become wider, or of new fields:
// these get what the default constructor gives them. Fields that are gone, or have another name, must be declared: data would
// be lost. What cannot be converted is refused, before anything is written (errc::schema_mismatch), and the message says which
// declaration would do.
//
// Paths name fields: "weight", "where.x" (in a nested class), "entity::id" (of a base). Functions run in the thread that opens
// the store. They may throw: then the store is as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tenure/types/fields.hpp>
#include <tenure/types/type.hpp>

namespace tenure {

namespace detail {
class conversion_memory;
}

#pragma GCC visibility push(default)  // libtenure.so exports it

// A value as it was stored, in a conversion: an object, a nested value, an element. Valid during the call.
class old_object {
 public:
  old_object() = default;
  old_object(const type& of, const std::byte* at, std::uint64_t count, detail::conversion_memory& in)
      : of_(&of), at_(at), count_(count), in_(&in) {}

  // Whether there is one. A null pointer leads to none.
  [[nodiscard]] explicit operator bool() const { return at_ != nullptr; }
  // A number or an enumeration, if it fits (errc::schema_mismatch if not, or if the field is no number).
  template <class V>
  requires(std::is_arithmetic_v<V> || std::is_enum_v<V>) [[nodiscard]] V get(std::string_view path) const {
    V value;
    scalar_kind kind = detail::scalar_of<V>();
    if constexpr (detail::scalar_of<V>() == scalar_kind::character)
      kind = std::is_signed_v<V> ? scalar_kind::signed_integer : scalar_kind::unsigned_integer;
    get_number(path, kind, sizeof value, &value);
    return value;
  }
  // A field of a type that has not changed, such as a string or a vector, where it is: what it refers to is old, too.
  template <class V>
  [[nodiscard]] const V& as(std::string_view path) const {
    return *static_cast<const V*>(unchanged(path, type_of<V>()));
  }
  // A nested value, or an element of an array: "where", "corners[2]".
  [[nodiscard]] old_object at(std::string_view path) const;
  // What a pointer refers to; with "", an element that is one.
  [[nodiscard]] old_object behind(std::string_view path) const;
  [[nodiscard]] bool has(std::string_view path) const;

  // The elements of an array that is an object of its own, as those of vectors.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] old_object operator[](std::uint64_t n) const;

  [[nodiscard]] const std::string& type_name() const { return of_->name; }
  [[nodiscard]] std::uint32_t version() const { return of_->version; }
  [[nodiscard]] const std::byte* address() const;  // in the store

 private:
  void get_number(std::string_view path, scalar_kind kind, std::size_t size, void* to) const;
  [[nodiscard]] const void* unchanged(std::string_view path, const type& as) const;

  const type* of_ = nullptr;
  const std::byte* at_ = nullptr;
  std::uint64_t count_ = 1;
  detail::conversion_memory* in_ = nullptr;
};

// What functions of a conversion can do besides.
class conversion {
 public:
  explicit conversion(detail::conversion_memory& in) : in_(in) {}

  // The new object of an old one: a pointer to store, not to look behind, unless its class has not changed.
  template <class T>
  [[nodiscard]] T* new_of(const old_object& was) const {
    return reinterpret_cast<T*>(const_cast<std::byte*>(was.address()));
  }
  // A further object, which the converted one, or another further one, must refer to. A class with virtual functions must be
  // registered (tenure::register_type).
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments) {
    void* const memory = allocate(type_of<T>());
    if constexpr (std::is_aggregate_v<T>)
      return ::new (memory) T{std::forward<Arguments>(arguments)...};
    else
      return ::new (memory) T(std::forward<Arguments>(arguments)...);
  }

 private:
  [[nodiscard]] void* allocate(const type& of);

  detail::conversion_memory& in_;
};

namespace detail {

struct field_change {
  enum class kind : std::uint8_t { renamed, removed, added, narrowed };
  kind what;
  std::string field, to = {};
  std::vector<std::byte> value = {};  // added
  type_reference value_type = {};
};

struct version_changes {
  std::uint32_t since;
  std::vector<field_change> fields = {};
  void (*typed)() = nullptr;
  void (*convert)(void (*typed)(), const old_object& was, void* is, conversion& how) = nullptr;
  bool has_second_function = false;  // a mistake, which is reported when something is converted
};

}  // namespace detail

// What evolve<T>::describe has said.
struct type_changes {
  std::vector<std::string> old_names;             // of the class
  std::vector<detail::version_changes> versions;  // by `since`

  [[nodiscard]] detail::version_changes& since(std::uint32_t version);
};

#pragma GCC visibility pop

// Changes that were made to objects of a version.
template <class T>
class changes_since {
 public:
  explicit changes_since(detail::version_changes& of) : of_(of) {}

  // The field has another name, or has moved into a nested class or a base, or out of it. Of a base: "old::" and "new::".
  // A field that has the name that it had is a new one.
  changes_since& renamed(std::string_view from, std::string_view to) {
    of_.fields.push_back({detail::field_change::kind::renamed, std::string(from), std::string(to)});
    return *this;
  }
  // A name that no stored version has is not noticed.
  changes_since& removed(std::string_view field) {
    of_.fields.push_back({detail::field_change::kind::removed, std::string(field)});
    return *this;
  }
  // A new field, and its value in old objects.
  template <class V>
  changes_since& added(std::string_view field, const V& value) {
    static_assert(std::is_trivially_copyable_v<V> && !std::is_pointer_v<V> && !std::is_array_v<V>,
                  "tenure: the value of a field that was added is a number or plain data; make others in a function "
                  "(converted)");
    std::vector<std::byte> bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    of_.fields.push_back({detail::field_change::kind::added, std::string(field), {}, std::move(bytes), &type_of<V>});
    return *this;
  }
  // A number that has become narrower, or an array that has become shorter. A value that does not fit is refused, before the
  // store is changed: so are elements that are not zero.
  changes_since& narrowed(std::string_view field) {
    of_.fields.push_back({detail::field_change::kind::narrowed, std::string(field)});
    return *this;
  }
  // A function, one for a version, sets what else must be set. `is` was made by the default constructor, and has the fields that have their
  // names in both; its pointers are to old objects until the end of the conversion. A field that is gone, and was not renamed, need
  // not be declared then: the function may have used it. One that has its name still, but a type that it cannot be converted to, must
  // be declared removed, if the function makes the new one.
  changes_since& converted(void (*function)(const old_object& was, T& is, conversion& how)) {
    of_.has_second_function = of_.convert != nullptr;
    of_.typed = reinterpret_cast<void (*)()>(function);
    of_.convert = [](void (*typed)(), const old_object& was, void* is, conversion& how) {
      reinterpret_cast<void (*)(const old_object&, T&, conversion&)>(typed)(was, *static_cast<T*>(is), how);
    };
    return *this;
  }

 private:
  detail::version_changes& of_;
};

template <class T>
class changes {
 public:
  explicit changes(type_changes& of) : of_(of) {}

  // A name that the class had in the store, as `tenure types` shows it. If another class of the program has it now, stored objects
  // of that name are the other's, unless they can be converted to this class only, and the store has none under its new name.
  changes& was_named(std::string_view name) {
    of_.old_names.emplace_back(name);
    return *this;
  }
  // What was changed after this version of the class (persist.hpp). Of stored objects, all changes since their version hold,
  // one after the other. Classes without a version have 0.
  changes_since<T> since(std::uint32_t version) { return changes_since<T>(of_.since(version)); }

 private:
  type_changes& of_;
};

namespace detail {

template <class T>
const type_changes& changes_of() {
  static const type_changes all = [] {
    type_changes made;
    changes<T> of(made);
    evolve<T>::describe(of);
    return made;
  }();
  return all;
}

}  // namespace detail
}  // namespace tenure
