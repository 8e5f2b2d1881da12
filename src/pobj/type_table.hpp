// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Types: which words of an object are references, and which bytes are transient [pobj 4.1, 7]. Each type has the same
// number in the program and in its store; 0 has no references. Types that a program defines have names. Types that come
// from typing single objects are shared by all objects that are typed alike. The store's lock guards them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pobj/object.hpp"

namespace tenure::pobj {

struct byte_range {
  std::uint64_t offset, length;
  [[nodiscard]] std::uint64_t end() const { return offset + length; }
  friend auto operator<=>(const byte_range&, const byte_range&) = default;
};

struct type_description {
  std::string name;                       // empty: made by typing single objects
  std::uint64_t size = 0;                 // of an element; the description repeats after it. 0: it does not
  std::vector<std::uint32_t> references;  // words, ascending
  std::vector<byte_range> transients;     // ascending, disjoint

  friend auto operator<=>(const type_description&, const type_description&) = default;

  [[nodiscard]] bool has_reference_at(std::uint64_t offset) const;
  // A stored description may be damaged: checks that everything ascends, lies in an element, and does not overlap. The
  // functions below rely on it, and their callers write where the offsets say.
  [[nodiscard]] bool makes_sense() const;
  // Calls f(offset) for each reference word that has a byte in [from, to) of an object of `length` bytes, in order.
  template <class F>
  void for_each_reference(std::uint64_t from, std::uint64_t to, std::uint64_t length, F&& f) const {
    if (references.empty() || from >= to) return;
    const std::uint64_t element = size == 0 ? length : size;
    for (std::uint64_t base = from / element * element; base < to; base += element) {
      auto at = references.begin();
      if (base < from) at = std::lower_bound(at, references.end(), (from - base) / 8);
      for (; at != references.end(); ++at) {
        const std::uint64_t offset = base + std::uint64_t{*at} * 8;
        if (offset >= to || offset + 8 > length) break;
        f(offset);
      }
    }
  }
  // Calls f(begin, end) for each transient range, as far as it is in [from, to).
  template <class F>
  void for_each_transient(std::uint64_t from, std::uint64_t to, std::uint64_t length, F&& f) const {
    if (transients.empty() || from >= to) return;
    const std::uint64_t element = size == 0 ? length : size;
    for (std::uint64_t base = from / element * element; base < to; base += element)
      for (const byte_range& r : transients) {
        const std::uint64_t begin = std::max(from, base + r.offset), end = std::min(to, base + r.end());
        if (begin < end) f(begin, end);
      }
  }
};

// Checks offsets that a program has given, up to POBJ_END. Throws POBJ_ETYPE or POBJ_ERANGE. `size`: of the object or
// element.
[[nodiscard]] std::vector<std::uint32_t> checked_references(const std::size_t* offsets, std::uint64_t size);
// Checks a whole description.
[[nodiscard]] type_description checked_description(const char* name, std::uint64_t size, const std::size_t* references,
                                                   const std::size_t* transients);
// "type \"node\" (16 bytes, references at 0, 8)"
[[nodiscard]] std::string text_of(const type_description& t);

class type_table {
 public:
  // Writes a type to the store, so that later commits find it there, and returns its slot. `instead`: the slot of the
  // type that had the number before, which is freed; 0: none had it.
  using keeper = std::function<position(std::uint32_t number, const type_description&, position instead)>;

  type_table();

  // Adds a type of the store while it is opened. Returns false if the number is taken.
  [[nodiscard]] bool load(std::uint32_t number, type_description description, position slot);
  // Returns false if a number below the last one is missing.
  [[nodiscard]] bool is_whole() const { return numbers_.size() + 1 == all_.size(); }
  // All users of the loaded types are known.
  void loaded();
  void keep_description_with(keeper k) { keep_ = std::move(k); }

  [[nodiscard]] std::size_t count() const { return all_.size(); }
  [[nodiscard]] const type_description& operator[](std::uint64_t number) const { return *all_[number].what; }
  [[nodiscard]] const type_description& of(object o) const {
    const object_header& h = o.header();
    return h.own_type != 0 ? own_.at(~o.address()) : *all_[h.type].what;
  }
  // The number of a type. A new type is added, and reuses the number of a type without a name and users, if there is
  // one. So types of single objects need only as much space as are in use [pobj.type.kept]. Throws POBJ_ETYPE if
  // another type has the name.
  [[nodiscard]] std::uint32_t intern(const type_description& wanted);
  // Throws POBJ_ETYPE if another one has the name.
  void compare(const type_description& wanted) const;
  // Users of a type are headers of objects, static variables, and slots that the next commit frees. A type that a
  // transaction has ceased to use counts as used until the transaction has ended, so that an abort can go back to it.
  void use(std::uint64_t number) noexcept { all_[number].users += number != 0 ? 1 : 0; }
  void drop(std::uint64_t number) noexcept;

  // An object's own type, which is changed word by word. The cost is in proportion to the changes, until it is made a
  // shared type again.
  [[nodiscard]] type_description& own(object o);
  // The object is gone, or was typed as a whole.
  void forget_own(object o) noexcept;

 private:
  struct numbered {
    const type_description* what = nullptr;
    position slot = 0;
    std::uint64_t users = 0;
    bool is_spare = false;  // is in spares_
  };
  void note_spare(std::uint64_t number) noexcept;
  // A type without users from the spares, which is removed from them; 0: there is none.
  [[nodiscard]] std::uint32_t take_spare() noexcept;

  std::vector<numbered> all_;
  std::vector<std::uint32_t> spares_;  // may have users again; room for all numbers
  std::map<type_description, std::uint32_t> numbers_;
  std::map<std::string, std::uint32_t, std::less<>> names_;
  std::unordered_map<std::uintptr_t, type_description> own_;  // by inverted handle
  keeper keep_;
  std::uint32_t last_ = 0;  // interned last
};

// Types that the program has defined, before and between stores. A pobj_type is one of these descriptions.
struct defined_types {
  [[nodiscard]] static defined_types& all();
  std::mutex mutex;  // guards the members below; taken before a store's lock
  // The defined type, which does not move. Throws POBJ_ETYPE.
  const type_description& define(type_description wanted);
  std::map<std::string, type_description, std::less<>> by_name;
};

}  // namespace tenure::pobj
