// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A damaged store in memory. What is damaged in it is found, and what a repair changes is changed here, in private pages, which
// nobody writes to the files. A rewriting then reads them as those of any other store [heap.rewrite.repair.image].
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <tenure/rewrite.hpp>

#include "objects/database_set.hpp"
#include "objects/object_walk.hpp"
#include "os/file.hpp"

namespace tenure::rewriting {

using heap::address;
using heap::sound_object;

class damaged_image {
 public:
  using finding_callback = std::function<void(repair_finding)>;
  // Nobody else may use the store until it is closed.
  damaged_image(const database_set& store, os::disk& disk, finding_callback found);

  // Finds what is lost. Throws errc::damaged if too much is.
  void find_damage(const rvm::progress_callback& on_progress);

  // The object in which the address lies, if it is there.
  [[nodiscard]] sound_object find(address at) const;
  // The same for one to which a pointer of a declared type leads; "": it is not known. Finds objects that damaged
  // bookkeeping does not know, too.
  [[nodiscard]] sound_object find(address at, std::string_view pointee) { return find(at, pointee, {}); }
  // What a container says of how long its array is: objects without headers do not say it themselves. 0: it is one object.
  struct array_extent {
    std::uint64_t elements = 0, bytes = 0;  // one of these
  };
  [[nodiscard]] sound_object find(address at, std::string_view pointee, array_extent of_array);
  // Whether bytes of a database lie there, so that they can be read.
  [[nodiscard]] bool has_bytes(address at, std::uint64_t length) const;
  // What was known of the object that was lost there.
  struct lost_object {
    address end;
    std::uint32_t type;
    std::uint64_t size;
    std::string text;
  };
  [[nodiscard]] const lost_object* lost_at(address at) const;
  // Whether elements of the array were lost, and are zeros now.
  [[nodiscard]] bool has_lost_elements(address array) const { return in_part_.contains(array); }
  // What lies, or lay, there, in words.
  [[nodiscard]] std::string text_of(address at) const;
  void lose(const database_state& in, address object, const std::string& why);

  // A new object, which is zero; 0: there is no room.
  [[nodiscard]] address make(const database_state& in, std::uint32_t type, std::uint64_t bytes);

  template <class T = std::uint64_t>
  [[nodiscard]] static T get(address at) {
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
    return value;
  }
  template <class T>
  static void put(address at, T value) {
    std::memcpy(reinterpret_cast<void*>(at), &value, sizeof value);
  }
  static void clear(address at, std::uint64_t bytes) { std::memset(reinterpret_cast<void*>(at), 0, bytes); }

  [[nodiscard]] const database_set& store() const { return store_; }
  // Whether the description says that a value of zeros is one like any other.
  [[nodiscard]] bool may_be_zero(const type& of);
  // nullptr: the database has no description of the class.
  [[nodiscard]] const type* described(const database_state& in, std::string_view name) const;

 private:
  void say(repair_finding::kind what, std::string text, std::uint64_t at = 0) { found_({what, std::move(text), at}); }
  void find_pages(const database_state& d, const rvm::progress_callback& on_progress);
  void require_descriptions(const database_state& d);
  void check_zones(const database_state& d);
  void check_blocks(const database_state& d);
  void check_block(const database_state& d, std::uint64_t block);
  void check_typed(const database_state& d, std::uint64_t block);
  void check_headed(const database_state& d, std::uint64_t block);
  void claim_blocks(const database_state& d, std::uint64_t first, std::uint64_t end);
  void lose_pages(const database_state& d);
  [[nodiscard]] bool lose_elements(const database_state& d, address object, address page);
  [[nodiscard]] static bool is_root_table(const database_state& d, address object);
  void forget(const database_state& d, address object);
  void say_block(const database_state& d, std::uint64_t block, const std::string& what);
  [[nodiscard]] bool is_sound_header(const database_state& d, address object, std::uint64_t room) const;
  [[nodiscard]] bool is_on_damaged_page(const database_state& d, address at) const;
  [[nodiscard]] bool has_damaged_record(const database_state& d, std::uint64_t block) const;
  // An object that a reference has found.
  [[nodiscard]] sound_object adopt(address at, std::string_view pointee, array_extent of_array);
  [[nodiscard]] bool adopt_headed(const database_state& d, address at, std::string_view pointee);
  [[nodiscard]] bool adopt_typed(const database_state& d, address at, std::string_view pointee, array_extent of_array);
  [[nodiscard]] bool has_vtables_of(const heap::known_type& type, address at) const;
  [[nodiscard]] const heap::known_type* type_by_vtables(const database_state& d, address at,
                                                        std::string_view pointee) const;
  [[nodiscard]] bool is_plausible(const heap::known_type& type, address at, std::uint64_t size) const;
  [[nodiscard]] std::uint64_t take_block(const database_state& d);

  const database_set& store_;
  os::disk& disk_;
  const finding_callback found_;
  std::unordered_map<const database_state*, std::set<std::uint64_t>> pages_;  // that are damaged: offsets
  std::map<address, lost_object> lost_;
  std::unordered_set<address> in_part_;        // arrays that have lost elements
  std::unordered_set<std::uint64_t> adopted_;  // blocks
  struct filled_block {
    address next = 0, limit = 0;
  };
  std::unordered_map<const database_state*, filled_block> filled_;
  mutable std::unordered_map<const database_state*, std::unordered_map<std::string, const type*>> described_;
  std::unordered_map<const type*, bool> zeros_;
};

}  // namespace tenure::rewriting
