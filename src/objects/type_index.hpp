// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The types of a database by number. An object's header has the number. The descriptions are persistent objects
// themselves (stored_types.hpp). A description is written when the first object of its type becomes persistent. Types
// that the program has registered are compared with the stored ones when the database is opened, others at their first
// use [PM3 §6.2.3]. A difference is refused before it does harm (errc::schema_mismatch).
//
// Thread-safe, except where a comment says otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <tenure/type.hpp>

#include "objects/block_map.hpp"
#include "objects/stored_address.hpp"
#include "objects/stored_types.hpp"

namespace tenure::heap {

// What its objects refer to without keeping it (weak_cells.hpp).
enum class cell_kind : std::uint8_t { none, weak, finalization };

[[nodiscard]] cell_kind cell_kind_of(const type& of);

struct known_type {
  std::uint32_t index = 0;
  const type* of = nullptr;     // the program's type, or the one that was read from the store
  std::unique_ptr<type> owned;  // what was read from the store
  std::unique_ptr<pointer_map> words;
  cell_kind cell = cell_kind::none;
  std::uint32_t first_slot = 0, slots = 0;  // of vtables
  std::vector<stored_address>
      vtable_words;  // this database's value for each of words->words() that is a vtable pointer
  // The description in the store, or the one that the commit will put there. Used by the writer only.
  stored_type* stored = nullptr;
  // What commits have made persistent. Guarded by the store's statistics_mutex.
  std::uint64_t objects = 0, bytes = 0;
};

class type_index {
 public:
  // `slots`: the area of vtable slots.
  type_index(std::string database, std::byte* slots);

  // Reads the stored descriptions. Called once, before all other functions.
  void read(const type_table& stored);
  // Compares the types that the program has registered, and makes vtables for those that have them.
  void compare_registered();

  // The number of a type of the program. A new type gets a number.
  [[nodiscard]] std::uint32_t index_of(const type& of);
  // nullptr: there is no such type.
  [[nodiscard]] known_type* find(std::uint32_t index) const {
    return index < count_.load(std::memory_order_acquire) ? table_[index] : nullptr;
  }
  // The type of an object. Throws errc::damaged if there is none of this number.
  [[nodiscard]] const known_type& at(std::uint32_t index) const {
    const known_type* const known = find(index);
    if (known == nullptr) [[unlikely]]
      refuse_unknown(index);
    return *known;
  }
  [[nodiscard]] std::uint32_t count() const { return count_.load(std::memory_order_acquire); }
  // Whether objects of some type have fields that are not recoverable.
  [[nodiscard]] bool has_transients() const { return has_transients_.load(std::memory_order_relaxed); }

  // Sets the vtable pointers of an object, or of an array of objects, to this database's values. Returns whether any
  // changed.
  bool canonicalize(const known_type& of, std::byte* object, std::uint64_t size) const;
  // The same for the vtable pointers in [from, to) of the object only.
  bool canonicalize(const known_type& of, std::byte* object, std::uint64_t size, std::uint64_t from,
                    std::uint64_t to) const;
  // The number of slots that were ever given out.
  [[nodiscard]] std::uint32_t slots() const { return next_slot_; }
  // Throws if an invariant does not hold. Called by the writer, or while nobody writes.
  void check() const;

 private:
  using guard = std::scoped_lock<std::mutex>;
  known_type& add(const guard&, std::unique_ptr<known_type> made);
  void remove_last(const guard&) noexcept;
  std::uint32_t index_of(const guard&, const type& of);
  [[noreturn]] void refuse_unknown(std::uint32_t index) const;
  void bind(const guard&, known_type& known, const type& program);
  // Called when `of`, `words` and the slots are known, and the nested types have their vtables.
  void make_vtables(known_type& of);
  void check_vtables(const known_type& of) const;

  const std::string database_;
  std::byte* const slots_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<known_type>> all_;
  std::vector<std::unique_ptr<pointer_map>> replaced_;  // words of types that were bound: a marker may be reading them
  // By index. It never moves, because it is read without the lock.
  std::unique_ptr<known_type*[], void (*)(known_type**)> table_;
  std::atomic<std::uint32_t> count_{1};
  std::unordered_map<const type*, std::uint32_t> by_type_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::uint32_t next_slot_ = 0;
  std::atomic<bool> has_transients_{false};
};

}  // namespace tenure::heap
