// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// An open database: its segment, mapped at home, and what this process knows about its objects.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <tenure/rvm.hpp>
#include <tenure/rvm/participant.hpp>
#include <tenure/store/options.hpp>

#include "objects/address_lists.hpp"
#include "objects/birth.hpp"
#include "objects/block_map.hpp"
#include "objects/root_names.hpp"
#include "objects/stored_types.hpp"
#include "objects/type_index.hpp"

namespace tenure {

class database_set;

namespace heap {

// What births need to know of an object, or an array, of a type.
[[nodiscard]] new_object described_object(std::uint32_t index, const type& of, const pointer_map& words,
                                          std::uint64_t bytes);

}  // namespace heap

struct database_state final : rvm::change_filter {
  // How the file of a new database is made: all zeros. The first transaction writes its header. `beside`: the databases that
  // the store has; nullptr: none yet.
  [[nodiscard]] static rvm::segment_options segment_for(const database_set* beside, const std::string& file,
                                                        const database_options& how);
  // Maps the database. A new one is empty until initialize().
  database_state(database_set& of, std::string name, std::string file);
  ~database_state() override;

  // Whether nothing was ever committed to it.
  [[nodiscard]] bool is_blank() const;
  // Checks the header and reads the type index.
  void read();
  // Writes the header, type table and root table of a new database, in this transaction.
  void initialize(rvm::transaction& tx, const std::array<std::uint8_t, 16>& database_id);

  [[nodiscard]] heap::database_header& header() const { return map->header(); }
  // The tables that the header refers to.
  [[nodiscard]] heap::type_table& type_table() const { return *heap::object_at<heap::type_table>(header().types); }
  // Throws errc::damaged if the header refers to none.
  [[nodiscard]] heap::root_table& root_table() const;

  // The object in which the address lies, or that starts there. Safe while other threads make objects.
  [[nodiscard]] heap::found_object find(const void* at) const;
  [[nodiscard]] heap::found_object find_start(const void* at) const;
  // Of the object that starts there; of none, nothing.
  [[nodiscard]] heap::object_facts describe(const void* object) const;

  // The writer no longer uses the object that starts here, persistent or transient. The commit removes it.
  void retire(const void* object);
  // While inner transactions are open: what they retire is noted, so that it can be taken back.
  void note_retired(bool yes) noexcept {
    notes_retired_ = yes;
    if (!yes) os::clear_all_of(noted_);
  }
  [[nodiscard]] std::size_t retired_so_far() const noexcept { return noted_.size(); }
  // Takes back all but the first `count` that were noted.
  void unretire(std::size_t count) noexcept;

  // roots.cpp
  [[nodiscard]] heap::root_entry* find_root(std::string_view root_name) const;
  void add_root(std::string_view root_name, void* object);
  void remove_root(std::string_view root_name);

  // A new transient object of a type of the program, filled with zeros.
  [[nodiscard]] heap::address make(const type& of, std::uint64_t bytes, heap::maker who);
  // The same for the heap's own objects, made by the writer. They have headers: what damage to the bookkeeping leaves
  // unknown, is said there once more.
  [[nodiscard]] heap::address make_internal(const type& of, std::uint64_t bytes);
  template <class T>
  T* make_array(std::uint64_t count) {
    return reinterpret_cast<T*>(make_internal(type_of<T>(), count * sizeof(T)));
  }
  [[nodiscard]] heap::stored_text make_text(std::string_view text);

  // Throws if an invariant does not hold. Called by the writer, or while nobody writes; not during a commit.
  void check() const;

  // rvm::change_filter
  void recoverable_parts(const rvm::memory_range& page, std::vector<rvm::memory_range>& kept) override;
  void restorable_parts(const rvm::memory_range& page, std::vector<rvm::memory_range>& kept) override;
  [[nodiscard]] bool is_announced(const rvm::memory_range& page) const noexcept override;
  [[nodiscard]] bool allows_stray_write(const std::byte* at) const noexcept override;
  [[nodiscard]] std::string describe(const std::byte* at) const override;
  [[nodiscard]] bool is_bookkeeping(std::uint64_t block) const;

  database_set& owner;
  const std::string name, file;  // file: the path
  std::uint64_t home = 0, reservation = 0;
  struct unmapped {
    void operator()(std::byte* area) const noexcept;
  };
  std::unique_ptr<std::byte, unmapped> vtables;  // the area of slots
  rvm::region region;
  std::unique_ptr<heap::block_map> map;
  std::unique_ptr<heap::birth> birth;
  std::unique_ptr<heap::type_index> types;
  const std::unique_ptr<heap::root_names> names = std::make_unique<heap::root_names>();

  // Removed by the open transaction: persistent objects, and transient ones.
  heap::address_set destroyed, retired;
  std::vector<heap::free_runs::run> trimming;  // blocks whose disk space the open transaction gives back

 private:
  bool notes_retired_ = false;
  heap::address_list<heap::address> noted_;
};

}  // namespace tenure
