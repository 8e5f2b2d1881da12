// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Classes that nobody has written: they are drawn, laid out as a compiler would, and described as type_of would describe them.
// Their values are trees by the identities of fields, which stay when names, types and places change.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tenure/string.hpp>
#include <tenure/type.hpp>
#include <tenure/vector.hpp>

#include "types/fingerprint.hpp"

namespace tenure::drawn {

struct number {
  const char* name;
  scalar_kind kind;
  std::uint64_t size;
  bool operator==(const number& o) const { return kind == o.kind && size == o.size; }
};
inline const std::vector<number>& numbers() {
  using enum scalar_kind;
  static const std::vector<number> all{{"bool", boolean, 1},
                                       {"char", character, 1},
                                       {"signed char", signed_integer, 1},
                                       {"short", signed_integer, 2},
                                       {"int", signed_integer, 4},
                                       {"long", signed_integer, 8},
                                       {"unsigned char", unsigned_integer, 1},
                                       {"unsigned short", unsigned_integer, 2},
                                       {"unsigned int", unsigned_integer, 4},
                                       {"unsigned long", unsigned_integer, 8},
                                       {"float", floating, 4},
                                       {"double", floating, 8},
                                       {"color", enumeration, 1},
                                       {"flags", enumeration, 2},
                                       {"wide_flags", enumeration, 4},
                                       {"char16_t", character, 2},
                                       {"wchar_t", character, 4}};
  return all;
}

// What a number can be. Of an enumeration: its bits.
inline long double least_of(const number& n) {
  const bool has_sign = n.kind == scalar_kind::signed_integer || n.kind == scalar_kind::floating ||
                        (n.kind == scalar_kind::character && n.size != 2);
  return has_sign ? -std::ldexp(1.0L, static_cast<int>(8 * n.size - 1)) : 0;
}
inline long double most_of(const number& n) {
  if (n.kind == scalar_kind::boolean) return 1;
  const auto bits = static_cast<int>(8 * n.size);
  return std::ldexp(1.0L, least_of(n) < 0 ? bits - 1 : bits) - 1;
}
inline long double rounded(const number& to, long double value) {
  return to.size == sizeof(float) ? static_cast<long double>(static_cast<float>(value))
                                  : static_cast<long double>(static_cast<double>(value));
}
inline bool holds(const number& n, long double value) {
  if (n.kind == scalar_kind::floating) return rounded(n, value) == value;
  return value >= least_of(n) && value <= most_of(n) && std::trunc(value) == value;
}

enum class form { number, nested, pointer, text, vector, optional };

struct field {
  int id;  // the same in all versions
  std::string name;
  form is = form::number;
  number of_number = numbers()[4];  // and of vectors and optionals without a class
  int of_class = -1;                // nested, vector, optional; pointer: -1 for void
  std::uint64_t count = 1;
  long double fresh = 0;  // each number that the default constructor makes
};
struct drawn_class {
  int id;
  std::string name;
  std::uint32_t version = 0;
  std::vector<field> fields;
  [[nodiscard]] const field* find(int field_id) const {
    const auto found = std::ranges::find(fields, field_id, &field::id);
    return found != fields.end() ? &*found : nullptr;
  }
};
struct schema {
  std::vector<drawn_class> classes;  // by identity. A class consists of later ones only

  [[nodiscard]] const drawn_class& at(int id) const { return classes[static_cast<std::size_t>(id)]; }
};

// Where a pointer leads: to an object, or to an element of a field of it.
struct target {
  int object = -1, field = -1;
  std::uint64_t element = 0;
  bool operator==(const target&) const = default;
};
struct element;
using object =
    std::map<int, std::vector<element>>;  // of each field: array or vector elements; an optional has none or one
struct element {
  long double value = 0;
  std::string text = {};
  target leads_to = {};
  object fields = {};
  bool operator==(const element&) const = default;
};

inline object default_of(const schema& s, int id) {
  object made;
  for (const field& f : s.at(id).fields) {
    std::vector<element>& all = made[f.id];
    for (std::uint64_t n = 0; n < f.count && f.is != form::vector && f.is != form::optional; ++n) {
      element& e = all.emplace_back();
      if (f.is == form::number) e.value = f.fresh;
      if (f.is == form::nested) e.fields = default_of(s, f.of_class);
    }
  }
  return made;
}

// The descriptions of a schema, and its values as bytes.
class described {
 public:
  explicit described(const schema& of) : of_(of) {
    for (auto c = of.classes.rbegin(); c != of.classes.rend(); ++c) keep(c->name);  // pointers lead to any of them
    for (auto c = of.classes.rbegin(); c != of.classes.rend(); ++c) describe(*c);
    // As if the program registered them: a field that is gone may have been the only one of such a type.
    for (const drawn_class& c : of.classes) {
      field f{0, {}};
      f.of_class = c.id;
      (void)optional_type(f);
      (void)vector_type(f);
    }
  }
  described(const described&) = delete;
  described& operator=(const described&) = delete;

  [[nodiscard]] type& of_class(int id) { return *by_name_.at(of_.at(id).name); }
  [[nodiscard]] std::vector<const type*> all() const {
    std::vector<const type*> found;
    for (const type& t : all_) found.push_back(&t);
    return found;
  }
  [[nodiscard]] const schema& layout_of() const { return of_; }

  [[nodiscard]] std::uint64_t offset_of(int class_id, int field_id) {
    const type& t = of_class(class_id);
    return t.fields[static_cast<std::size_t>(of_.at(class_id).find(field_id) - of_.at(class_id).fields.data())].offset;
  }

  // How memory for elements is made, and what pointers are. Without memory there are no vectors and no texts.
  struct memory {
    std::function<void*(const type&, std::uint64_t bytes)> make = {};
    std::function<std::uintptr_t(const target&)> address_of = {};
    std::function<target(std::uintptr_t)> target_at = {};
  };
  void write(int class_id, const object& values, std::byte* at, const memory& with) {
    for (const field& f : of_.at(class_id).fields) {
      const std::vector<element>& all = values.at(f.id);
      std::byte* const to = at + offset_of(class_id, f.id);
      if (f.is == form::vector)
        write_vector(f, all, to, with);
      else
        for (std::size_t n = 0; n < all.size(); ++n) write_element(f, all[n], to + n * size_of_element(f), with);
      if (f.is == form::optional && !all.empty()) to[size_of_element(f)] = std::byte{1};
    }
  }
  [[nodiscard]] object read(int class_id, const std::byte* at, const memory& with) {
    object values;
    for (const field& f : of_.at(class_id).fields) {
      const std::byte* from = at + offset_of(class_id, f.id);
      std::uint64_t count = f.count;
      if (f.is == form::optional) count = from[size_of_element(f)] == std::byte{} ? 0 : 1;
      if (f.is == form::vector) {
        std::uintptr_t words[2];
        std::memcpy(words, from, sizeof words);
        from = reinterpret_cast<const std::byte*>(words[0]);
        count = words[1];
      }
      std::vector<element>& all = values[f.id];
      for (std::uint64_t n = 0; n < count; ++n) all.push_back(read_element(f, from + n * size_of_element(f), with));
    }
    return values;
  }

 private:
  type& keep(const std::string& name) {
    type& made = all_.emplace_back();
    made.name = name;
    by_name_.emplace(name, &made);
    return made;
  }
  const type& number_type(const number& n) {
    if (const auto known = by_name_.find(n.name); known != by_name_.end()) return *known->second;
    type& made = keep(n.name);
    made.size = made.alignment = n.size;
    type_field& only = made.fields.emplace_back();
    only.scalar = n.kind;
    only.size = n.size;
    only.type_name = n.name;
    made.fingerprint = types::fingerprint_of(made);
    return made;
  }
  // The class or number of which a field has one, some or many.
  const type& element_type(const field& f) { return f.of_class >= 0 ? of_class(f.of_class) : number_type(f.of_number); }
  std::uint64_t size_of_element(const field& f) {
    if (f.is == form::pointer) return sizeof(void*);
    if (f.is == form::text) return sizeof(string);
    return element_type(f).size;
  }

  const type& vector_type(const field& f) {
    const type& e = element_type(f);
    const std::string name = "tenure::vector<" + e.name + ", tenure::heap_memory>";
    if (const auto known = by_name_.find(name); known != by_name_.end()) return *known->second;
    type& made = keep(name);
    made = type_of<tenure::vector<int>>();
    made.name = name;
    made.fields[0].of = &e;
    made.fields[0].type_name = e.name + "*";
    made.fingerprint = types::fingerprint_of(made);
    return made;
  }
  const type& optional_type(const field& f) {
    const type& e = element_type(f);
    const std::string name = "std::optional<" + e.name + ">";
    if (const auto known = by_name_.find(name); known != by_name_.end()) return *known->second;
    type& made = keep(name);
    made.alignment = e.alignment;
    made.size = (e.size + e.alignment) / e.alignment * e.alignment;
    type_field value;
    value.name = "value";
    value.kind = f.of_class >= 0 ? field_kind::nested : field_kind::data;
    if (f.of_class >= 0) value.of = &e;
    if (f.of_class < 0) value.scalar = f.of_number.kind;
    value.size = e.size;
    value.type_name = e.name;
    value.only_if = field_guard{e.size, 1, 1};
    type_field has;
    has.name = "has_value";
    has.scalar = scalar_kind::boolean;
    has.offset = e.size;
    has.size = 1;
    has.type_name = "bool";
    made.fields = {value, has};
    made.fingerprint = types::fingerprint_of(made);
    return made;
  }

  void describe(const drawn_class& c) {
    type& t = *by_name_.at(c.name);
    t.version = c.version;
    for (const field& f : c.fields) {
      type_field made;
      made.name = f.name;
      made.count = f.count;
      std::uint64_t alignment = sizeof(void*), each = sizeof(void*);
      const type* nested = nullptr;
      switch (f.is) {
        case form::number:
          made.scalar = f.of_number.kind;
          made.type_name = f.of_number.name;
          alignment = each = f.of_number.size;
          break;
        case form::pointer:
          made.kind = field_kind::reference;
          if (f.of_class >= 0) made.of = &of_class(f.of_class);
          made.type_name = (f.of_class >= 0 ? of_.at(f.of_class).name : "void") + "*";
          break;
        case form::nested: nested = &of_class(f.of_class); break;
        case form::text: nested = &type_of<string>(); break;
        case form::vector: nested = &vector_type(f); break;
        case form::optional: nested = &optional_type(f); break;
      }
      if (nested != nullptr) {
        made.kind = field_kind::nested;
        made.of = nested;
        made.type_name = nested->name;
        alignment = nested->alignment;
        each = nested->size;
      }
      made.offset = (t.size + alignment - 1) / alignment * alignment;
      made.size = f.count * each;
      t.size = made.offset + made.size;
      t.alignment = std::max(t.alignment, alignment);
      t.fields.push_back(made);
    }
    t.size = std::max<std::uint64_t>((t.size + t.alignment - 1) / t.alignment * t.alignment, 1);
    t.fingerprint = types::fingerprint_of(t);
  }

  void write_vector(const field& f, const std::vector<element>& all, std::byte* to, const memory& with) {
    if (all.empty()) return;
    const type& e = element_type(f);
    auto* const array = static_cast<std::byte*>(with.make(e, (all.size() + 2) * e.size));
    for (std::size_t n = 0; n < all.size(); ++n) write_element(f, all[n], array + n * e.size, with);
    const std::uintptr_t words[3]{reinterpret_cast<std::uintptr_t>(array), all.size(), all.size() + 2};
    std::memcpy(to, words, sizeof words);
  }
  void write_element(const field& f, const element& e, std::byte* to, const memory& with) {
    if (f.is == form::text) {
      if (!e.text.empty()) *::new (to) string = e.text;
    } else if (f.is == form::pointer) {
      const std::uintptr_t address = with.address_of(e.leads_to);
      std::memcpy(to, &address, sizeof address);
    } else if (f.of_class >= 0) {
      write(f.of_class, e.fields, to, with);
    } else {
      write_number(f.of_number, e.value, to);
    }
  }
  element read_element(const field& f, const std::byte* from, const memory& with) {
    element e;
    if (f.is == form::text) {
      e.text = std::string(*reinterpret_cast<const string*>(from));
    } else if (f.is == form::pointer) {
      std::uintptr_t address;
      std::memcpy(&address, from, sizeof address);
      e.leads_to = with.target_at(address);
    } else if (f.of_class >= 0) {
      e.fields = read(f.of_class, from, with);
    } else {
      e.value = read_number(f.of_number, from);
    }
    return e;
  }

  template <class T>
  static void put(T value, std::byte* to) {
    std::memcpy(to, &value, sizeof value);
  }
  template <class T>
  static long double get(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return static_cast<long double>(value);
  }
  static void write_number(const number& n, long double value, std::byte* to) {
    if (n.kind == scalar_kind::floating)
      return n.size == 4 ? put(static_cast<float>(value), to) : put(static_cast<double>(value), to);
    const std::uint64_t bits =
        value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : static_cast<std::uint64_t>(value);
    std::memcpy(to, &bits, n.size);  // little-endian
  }
  static long double read_number(const number& n, const std::byte* from) {
    if (n.kind == scalar_kind::floating) return n.size == 4 ? get<float>(from) : get<double>(from);
    const bool has_sign = least_of(n) < 0;
    switch (n.size) {
      case 1: return has_sign ? get<std::int8_t>(from) : get<std::uint8_t>(from);
      case 2: return has_sign ? get<std::int16_t>(from) : get<std::uint16_t>(from);
      case 4: return has_sign ? get<std::int32_t>(from) : get<std::uint32_t>(from);
      default: return has_sign ? get<std::int64_t>(from) : get<std::uint64_t>(from);
    }
  }

  const schema& of_;
  std::deque<type> all_;
  std::map<std::string, type*> by_name_;
};

}  // namespace tenure::drawn
