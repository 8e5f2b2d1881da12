// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What is known of a store that nobody has open: by its own descriptions, without the program's types. A crash's log is
// replayed into memory only; no file changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "objects/object_walk.hpp"
#include "store/store_state.hpp"

namespace tenure::tools {

// Bytes of objects are without their headers.

struct log_facts {
  std::string path;
  std::uint64_t size = 0, used = 0;  // bytes for records, and how many of them are live
  bool recovery_needed = false;      // opening it for writing will recover
  std::uint64_t transactions = 0;    // that were replayed
  std::string in_doubt;              // global id of a transaction that is prepared
};

struct database_facts {
  std::string name, file, id;
  std::uint64_t home = 0, reservation = 0;         // reservation: with the area of vtable slots below home
  std::uint64_t length = 0;                        // bytes of the segment: all that could be used without growing
  std::uint64_t objects = 0, bytes = 0;            // bytes: in use by objects with headers, whole blocks for large ones
  std::uint64_t used_blocks = 0, free_blocks = 0;  // of 32 KiB; up to `length`
  std::uint64_t roots = 0, types = 0;
  std::uint64_t conservative_types = 0, conservative_objects = 0;
};

struct root_facts {
  std::string database, name;
  heap::stored_address object = heap::stored_address::none;
  std::string type;                                  // empty: no object is there
  std::uint64_t reachable = 0, reachable_bytes = 0;  // from this root, itself included; counted on request
};

struct type_facts {
  std::string database;
  std::uint32_t index = 0;
  const type* of = nullptr;
  std::uint64_t objects = 0, bytes = 0;
};

// An object that was reached, and how.
struct reached_object {
  heap::sound_object object;
  std::uint64_t depth = 0;
  std::string root;          // where the way begins: a name, or empty where it was asked for by its address
  heap::address from = 0;    // 0: it is where the way begins
  std::uint64_t offset = 0;  // of the reference in `from`
};

class surveyed_store {
 public:
  // Opens it for reading. `progress` may be empty. Throws tenure::error: in use, damaged, of another version.
  explicit surveyed_store(const std::string& directory, const rvm::progress_callback& progress = {},
                          rvm::copied_files copied = rvm::copied_files::refuse);

  [[nodiscard]] const database_set& set() const { return *state_->databases; }
  [[nodiscard]] log_facts log() const;
  [[nodiscard]] std::vector<database_facts> databases() const;
  // `database`: empty for all; errc::bad_option if there is none of this name.
  [[nodiscard]] std::vector<root_facts> roots(const std::string& database, bool with_sizes) const;
  [[nodiscard]] std::vector<type_facts> types(const std::string& database) const;

  [[nodiscard]] heap::sound_object find(const void* at) const { return heap::find_sound(set(), at); }
  [[nodiscard]] heap::sound_object find(heap::stored_address at) const { return heap::find_sound(set(), at); }

 private:
  [[nodiscard]] std::vector<const database_state*> chosen(const std::string& database) const;
  std::unique_ptr<store_state> state_;
};

// Goes breadth first over what can be reached. Characters of strings are no objects of their own here.
class reaching {
 public:
  explicit reaching(const surveyed_store& in) : in_(in) {}

  void begin_at(const heap::sound_object& object, std::string root);
  // Calls f for each object, until it returns false. `depth`: steps from where the way begins.
  void go(std::optional<std::uint64_t> depth, const std::function<bool(const reached_object&)>& f);
  // Whether there was more behind the last step that go() went.
  [[nodiscard]] bool ended_at_depth() const { return ended_at_depth_; }
  // ".next.next", from the beginning; a long one is cut in the middle.
  [[nodiscard]] std::string way_to(const reached_object& object) const;

 private:
  // Calls f(object, offset) for each object that `from` refers to at an offset, and that was not reached before.
  template <class F>
  void for_each_new(const reached_object& from, F&& f) const;

  const surveyed_store& in_;
  std::unordered_map<heap::address, std::size_t> seen_;  // number in order_
  std::vector<reached_object> order_;
  bool ended_at_depth_ = false;
};

}  // namespace tenure::tools
