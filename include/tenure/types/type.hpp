// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The object heap's description of a type: where its objects have pointers, vtable pointers and fields that do not
// persist, and the identity under which it is stored. Programs do not build descriptions: type_of<T>() does
// (fields.hpp). Types that only a store knows, which are read from its type index, have the same structure, but no
// operations.
//
// Field kinds and guards are data, not code. So a store can be traced, verified and dumped by programs that do not have
// its types [PM3 §6.2.3].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

namespace tenure {

#pragma GCC visibility push(default)  // libtenure.so exports it

struct type;
struct type_changes;

enum class field_kind : std::uint8_t {
  data,       // bytes without pointers
  reference,  // T*: null, or into an object of a database of the store (its start, a base, a member or an element)
  derived,    // a pointer into the object that an earlier reference field of the same object refers to, or one past its
              // end: moves with it, and is no reference of its own
  transient,  // never logged; zero in a new process
  vtable,     // a vtable pointer
  nested,     // `count` values of type `of`
  conservative,  // layout unknown: every aligned word may be a pointer
};

// How a data field prints. For tools.
enum class scalar_kind : std::uint8_t {
  none,
  boolean,
  character,
  signed_integer,
  unsigned_integer,
  floating,
  enumeration,
  text
};

// The type that a field refers to or consists of. It is made at the first use, because types may refer to each other in
// cycles. In a program's types this is a function, in a store's types an object.
class type_reference {
 public:
  constexpr type_reference() = default;
  constexpr type_reference(std::nullptr_t) {}
  constexpr type_reference(const type& (*make)()) : make_(make) {}
  constexpr type_reference(const type* known) : known_(known) {}

  [[nodiscard]] const type& operator()() const { return make_ != nullptr ? make_() : *known_; }
  [[nodiscard]] explicit operator bool() const { return make_ != nullptr || known_ != nullptr; }
  [[nodiscard]] friend bool operator==(const type_reference& one, std::nullptr_t) { return !one; }

 private:
  const type& (*make_)() = nullptr;
  const type* known_ = nullptr;  // must stay valid as long as the type that refers to it
};

// The condition of a field that is valid only while another place of the object holds a certain value: members of
// optionals and variants.
struct field_guard {
  std::uint64_t offset = 0;  // from the start of the type that has the field
  std::uint8_t width = 1;    // bytes: 1, 2, 4 or 8
  std::uint64_t value = 0;   // the field counts if the place holds this value
  bool operator==(const field_guard&) const = default;
};

struct type_field {
  std::string name;  // empty if it is not known
  field_kind kind = field_kind::data;
  scalar_kind scalar = scalar_kind::none;
  std::uint64_t offset = 0, size = 0;  // bytes, of all `count` together
  std::uint64_t count = 1;             // arrays are one field
  // nested: the type of the values. reference: the declared type of the pointer's target; nullptr for void and
  // incomplete types.
  type_reference of;
  std::string type_name;        // in readable form
  std::uint32_t subobject = 0;  // vtable: which of the type's vtable pointers
  std::optional<field_guard> only_if;
  std::uint64_t row =
      1;  // of an array of arrays in a program's types: the number of elements of each. It is not stored.
  // reference: whether the program has a cache::ref there, and no plain pointer. It is not stored either.
  bool is_checked = false;
};

// The operations that this process has for objects of a type.
struct type_operations {
  const std::type_info* info = nullptr;              // of a class
  void (*destroy)(void* object) noexcept = nullptr;  // nullptr: trivial
  // The words that this process's constructors write at the type's vtable pointers, in the order of `subobject`.
  const std::vector<const void*>& (*vtables)() = nullptr;
  // Of a class that describes itself, or is an aggregate: makes what its default constructor makes. nullptr: there is none.
  void (*construct)(void* memory) = nullptr;
  // What evolve<T> says (evolve.hpp). nullptr: nothing.
  const type_changes& (*changes)() = nullptr;
};

struct type {
  std::string name;  // qualified, as people write it; part of the identity
  std::uint64_t size = 0, alignment = 1;
  std::uint32_t version = 0;  // given by the program; part of the identity
  // Hash of the structure: sizes, offsets, kinds, names, nested fingerprints, and names of pointees, but not the
  // pointees' structure.
  std::uint64_t fingerprint = 0;
  bool is_conservative = false;    // it or something in it is
  bool tolerates_stale = false;    // array of a foreign container: slots behind the live elements may hold old pointers
  std::vector<type_field> fields;  // in the order of offsets; bases first
  // Of a container of the program: the types of what it allocates, besides those that its pointers are declared to refer to.
  std::vector<type_reference> allocates = {};
  const type_operations* operations = nullptr;  // nullptr: only the store knows this type
};

// The places of a type's pointers, with nested types and arrays flattened. Made once for each type.
class pointer_map {
 public:
  struct word {
    std::uint64_t offset;
    field_kind kind;  // reference, derived, vtable, conservative (each word for itself), transient (`length` bytes)
    std::uint64_t length;               // bytes
    std::uint32_t slot;                 // vtable: number among the slots of `of`
    const type* of;                     // vtable: the type whose vtable it is; reference: the declared type or nullptr
    std::uint32_t first_guard, guards;  // in guards(): all must hold; offsets are from the object's start
    bool is_checked;                    // reference: type_field::is_checked
  };

  explicit pointer_map(const type& of);

  [[nodiscard]] const std::vector<word>& words() const { return words_; }
  // Some of them, in the order of offsets: all that have a byte in [from, to) of an object, or a guard there.
  [[nodiscard]] std::span<const word> words_near(std::uint64_t from, std::uint64_t to) const;
  // Whether the word has a byte in [from, to), or a guard there.
  [[nodiscard]] bool depends_on(const word& w, std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] const std::vector<field_guard>& guards() const { return guards_; }
  [[nodiscard]] bool has_pointers() const { return has_pointers_; }  // references or conservative words
  [[nodiscard]] bool has_vtables() const { return has_vtables_; }
  [[nodiscard]] bool has_transients() const { return has_transients_; }
  [[nodiscard]] std::span<const field_guard> guards_of(const word& w) const {
    return std::span(guards_).subspan(w.first_guard, w.guards);
  }
  // Whether the guards of the word hold in the object.
  [[nodiscard]] bool holds(const word& w, const std::byte* object) const;
  // "owner.name[3].next": the field that contains the byte at `offset`. For messages.
  [[nodiscard]] static std::string path_of(const type& of, std::uint64_t offset);

 private:
  std::vector<word> words_;  // by offset
  std::vector<field_guard> guards_;
  bool has_pointers_ = false, has_vtables_ = false, has_transients_ = false;
  // How far the bytes and guards of a word are from its offset, at most.
  std::uint64_t before_ = 0, behind_ = 0;
};

// The description of T. It is made at the first call. The reference stays valid as long as the process runs.
// Thread-safe. Defined in fields.hpp.
template <class T>
const type& type_of();

#pragma GCC visibility pop

}  // namespace tenure
