// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// All that one commit changes in the databases: of changed objects the bytes that differ, new objects whole, the bookkeeping of
// both and of those that are destroyed, and descriptions of new types.
//
// Not thread-safe: guarded by the store's mutex.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include <tenure/cache/options.hpp>

#include "cache/bookkeeping.hpp"
#include "cache/byte_arena.hpp"
#include "cache/databases.hpp"
#include "cache/descriptions.hpp"
#include "cache/object_table.hpp"
#include "cache/stored_form.hpp"

namespace tenure::cache {

class commit_changes {
 public:
  commit_changes(open_databases& databases, object_table& objects) : databases_(databases), objects_(objects) {}
  ~commit_changes();
  commit_changes(const commit_changes&) = delete;
  commit_changes& operator=(const commit_changes&) = delete;

  // Throws errc::cannot_persist, errc::out_of_memory, and the errors of reading. Then nothing has happened, but that the transaction
  // may have more locks.
  void gather(open_transaction& tx);
  [[nodiscard]] bool empty() const { return changes_.empty(); }
  void add_to(rvm::transaction& log) const;
  // The log has captured them: pages, tables and free places follow, but for objects_.
  void captured(statistics& counts) noexcept;

  // Made objects that are stored now.
  [[nodiscard]] const std::vector<cached_object*>& stored() const { return made_; }
  // What has changed in memory of objects that were stored before.
  [[nodiscard]] const std::vector<object_part>& changed() const { return changed_; }

  // Instead of gather(): only finds the made objects that it would store.
  void reach(const open_transaction& tx);
  void forget() noexcept { made_.clear(); }

 private:
  struct change {
    stored_database& in;
    std::uint64_t home;
    std::span<const std::byte> now;
    std::size_t first, end;  // of where_, which may grow
  };
  // Of a database in which objects are made or destroyed.
  struct book {
    explicit book(open_database& of) : in(of), pages(of.stored), records(of.stored, pages), types(of) {
      in.free.begin();
    }
    open_database& in;
    edited_pages pages;
    bookkeeping records;
    descriptions types;
    std::vector<places::freed> freed;
    bool has_roots = false;  // that have changed
  };
  [[nodiscard]] book& book_of(std::uint64_t home);
  void add_made(open_transaction& tx, cached_object& object);
  // Room for the bytes of an object that add_whole() gets, and for a header before it.
  [[nodiscard]] std::span<std::byte> room_for_whole(std::size_t size);
  void add_whole(book& in, std::uint64_t home, std::uint32_t type, std::span<std::byte> bytes);
  // Of a change whose ranges were added to where_; false: there are none.
  bool add_change(stored_database& in, std::uint64_t home, std::span<const std::byte> now, std::size_t first);
  template <class F>
  void for_each_range(F&& f) const;
  void require_no_root_to(const cached_object& destroyed, const open_transaction& tx) const;
  void close_books();

  open_databases& databases_;
  object_table& objects_;
  std::vector<object_part> changed_;
  std::vector<cached_object*> made_;
  std::list<book> books_;
  std::vector<change> changes_;
  std::vector<byte_range> where_;
  byte_arena bytes_;
  std::uint64_t changed_objects_ = 0, destroyed_objects_ = 0;
  bool is_captured_ = false;
};

}  // namespace tenure::cache
