// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The objects that are in memory, each once, in memory of its own. Finds them by their home addresses and by where they are.
//
// An object that has a plain pointer to another one needs it in memory: the two are in one *group*, which comes and goes as a
// whole [cache.group]. So containers work as they are, and a ref is where a fault stops. (Residency constraints
// [Hosking §4.1] are of this kind.)
//
// Objects that were evicted are found in no ref of those that stay: a scan of these looks for refs to unswizzle. The other way,
// a list of the refs to each object, would have to hear of each assignment of a ref; the scan costs nothing until there is no
// room, and then takes out many objects at once.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cache/address_table.hpp"
#include "cache/lock_words.hpp"
#include "cache/object_memory.hpp"
#include "cache/old_value.hpp"
#include "cache/open_transaction.hpp"
#include "cache/stored_types.hpp"

namespace tenure::cache {

class object_table;

// Of a group; a transaction that has no bit in lock words.
struct lock_holder {
  const open_transaction* who;
  lock_mode mode;
};

enum class object_state : std::uint8_t {
  stored,
  made,       // by this cache, and not stored yet
  destroyed,  // stored, and to be destroyed by the commit of an open transaction
  gone,       // nobody finds it. It is a member of its group until the next eviction
};

struct cached_object {
  cached_object(object_table& table, stored_database& of, const stored_database::stored_object& stored,
                const bound_type& its_type);
  ~cached_object() { free_bytes(); }
  cached_object(const cached_object&) = delete;
  cached_object& operator=(const cached_object&) = delete;

  object_memory& memory;
  stored_database& in;
  const bound_type& type;
  const std::uint64_t home;
  std::uint64_t size;
  std::byte* bytes;  // nullptr: gone
  const bool has_guard;
  object_state state = object_state::stored;
  // Of a made object: the transaction that has made it, or nullptr, if it is the array of a container in no stored object;
  // whether the program has made it, and no container; whether the commit that goes on stores it.
  open_transaction* maker = nullptr;
  bool is_root = false, is_reached = false;
  std::uint32_t number_of_made = 0;  // in the list of its maker
  old_value before;                  // a transaction has announced a change
  // The group: a ring, and its counts, which are right in the leader.
  cached_object *next = this, *leader = this;
  std::uint64_t members = 1, holds = 0;      // holds: pins and announced changes
  std::vector<lock_holder> locks;            // of those without a bit in the lock word
  std::uint64_t pins = 0;                    // of the holds, those that know this member
  bool leaves = false;                       // the eviction that goes on takes it
  std::list<cached_object>::iterator place;  // in the table

  [[nodiscard]] std::uintptr_t at() const { return reinterpret_cast<std::uintptr_t>(bytes); }
  [[nodiscard]] old_value::shape shape() const {
    return {static_cast<std::size_t>(size), static_cast<std::size_t>(type.program->size)};
  }
  [[nodiscard]] object_guard& guard() const { return detail::guard_of(at()); }
  // Of its group.
  [[nodiscard]] lock_word& lock() const { return leader->guard().own; }
  // "the object at 0x110000123450, a part"
  [[nodiscard]] std::string text() const;
  void free_bytes() noexcept;
};

// Calls f(word, number of the word in its type, bytes of the word) for each word of an object, or of an array of objects, that
// counts and that is no data. `bytes`: the object's, or others of the same type.
template <class F>
void for_each_word(const bound_type& type, std::byte* bytes, std::uint64_t size, F&& f) {
  const auto& words = type.words.words();
  if (words.empty()) return;
  const std::uint64_t stride = type.program->size;
  for (std::uint64_t at = 0; at + stride <= size; at += stride)
    for (std::size_t n = 0; n < words.size(); ++n)
      if (words[n].guards == 0 || type.words.holds(words[n], bytes + at)) f(words[n], n, bytes + at + words[n].offset);
}

// Bytes of an object: all of it, or some elements of an array.
struct object_part {
  cached_object* object;
  std::size_t offset, length;
};
[[nodiscard]] inline object_part whole(cached_object& object) {
  return {&object, 0, static_cast<std::size_t>(object.size)};
}

class object_table {
 public:
  // `room`: bytes of objects, with what is known of each. `lock`: what lock words are at first; nullopt: there are none.
  object_table(std::uint64_t room, std::optional<std::uint64_t> lock)
      : room_(room), first_lock_(lock), memory_(lock ? sizeof(object_guard) : 0) {}

  // The object that starts at the home address; nullptr: it is not in memory.
  [[nodiscard]] cached_object* find(std::uint64_t home) const { return by_home_.find(home); }
  // find() will be called soon.
  void prefetch(std::uint64_t home) const { by_home_.prefetch(home); }
  // The object in whose memory the address lies.
  [[nodiscard]] cached_object* find_at(std::uintptr_t address) const;

  // What an object of this size takes of the room.
  [[nodiscard]] static std::uint64_t cost_of(std::uint64_t size) { return size + sizeof(cached_object) + 64; }
  [[nodiscard]] std::uint64_t room() const { return room_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] std::size_t size() const { return by_home_.size(); }
  // Throws errc::cache_full if there is no room for so many bytes more; what() wants it. The next eviction makes room for as
  // much as is possible.
  template <class What>
  void require_room(std::uint64_t more, What&& what) {
    if (used_ > room_ || more > room_ - used_) refuse_room(more, what());
  }
  // Of before-images.
  void take_room(std::uint64_t bytes) { used_ += bytes; }
  void give_room(std::uint64_t bytes) { used_ -= bytes; }

  // Of the objects that add() gets.
  [[nodiscard]] object_memory& memory() { return memory_; }
  [[nodiscard]] std::optional<std::uint64_t> first_lock() const { return first_lock_; }
  // What a ref to the object has as its word.
  [[nodiscard]] std::uint64_t word_to(const cached_object& object) const {
    return first_lock_ ? detail::guarded(object.at()) : object.at();
  }
  void add(std::list<cached_object>&& loaded);
  // The made object in which the home address lies; nullptr: there is none.
  [[nodiscard]] cached_object* find_made(std::uint64_t home) const;
  // A made object is stored now.
  void stored(cached_object& object) noexcept;
  // Nobody uses the object any more. It was held once for being made, which ends.
  void discard_made(cached_object& object) noexcept;
  // A commit has destroyed the object [cache.making.destroyed]. Its guard leads to no lock from now on.
  void remove_destroyed(cached_object& object) noexcept;
  [[nodiscard]] static bool is_removed(const object_guard& guard);
  // The removed object with this guard. It looks at all objects.
  [[nodiscard]] cached_object& removed_with(const object_guard& guard);
  // Of objects in the table. (Where there is no memory for a few locks, the program ends.)
  static void unite(cached_object& one, cached_object& other) noexcept;
  static void hold(cached_object& object) { ++object.leader->holds; }
  static void let_go(cached_object& object) { --object.leader->holds; }
  [[nodiscard]] static bool is_held(const cached_object& object) { return object.leader->holds != 0; }

  // Whether an eviction is due: when little room is left, or was refused.
  [[nodiscard]] bool is_crowded() const { return was_refused_ || used_ > room_ / 4 * 3; }
  // Takes out objects that nobody holds, the ones that came first, until half of the room is free, or all, if room was refused.
  // Nobody may use refs or pointers to objects that are not held, from now on.
  void evict();
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  // Throws if an invariant does not hold.
  void check() const;

 private:
  [[noreturn]] void refuse_room(std::uint64_t more, const std::string& what);
  void add(cached_object& object);
  void forget(cached_object& object) noexcept;
  void forget_address(cached_object& object) noexcept;
  void mark_gone(std::vector<cached_object*>& leaving);
  void unswizzle_to_leaving();

  const std::uint64_t room_;
  const std::optional<std::uint64_t> first_lock_;
  std::uint64_t used_ = 0, evicted_ = 0, evictions_ = 0;
  bool was_refused_ = false;
  object_memory memory_;
  std::list<cached_object> objects_;  // the first ones came first
  address_table<cached_object, 4> by_home_;
  std::map<std::uintptr_t, cached_object*> large_;  // by where they are; of others, the memory knows
  std::map<std::uint64_t, cached_object*> made_;    // by home
  std::size_t gone_ = 0;
};

}  // namespace tenure::cache
