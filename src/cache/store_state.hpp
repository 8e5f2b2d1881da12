// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store in a cache: its parts, and what dereferences and transactions do with them.
//
// Locks, in this order: the door's mutex; the store's mutex, which guards the pool, the databases and the table; those of
// recoverable memory. Object locks are waited for without the store's mutex. Swizzled refs are followed without any: objects leave only when the
// door says that nobody can have one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tenure/cache/options.hpp>
#include <tenure/cache/transaction.hpp>
#include <tenure/rvm.hpp>

#include "cache/databases.hpp"
#include "cache/door.hpp"
#include "cache/loader.hpp"
#include "cache/object_locks.hpp"
#include "cache/object_table.hpp"
#include "cache/open_transaction.hpp"
#include "cache/page_pool.hpp"

namespace tenure::cache {

class commit_changes;

class store_state : public std::enable_shared_from_this<store_state> {
 public:
  // Others may find the store from now on. It is open until the last one lets go of the result, or of what keep_open() gives: the
  // program's store, its open transactions and its pins. Whoever only looks at it has other references, which keep its memory
  // [cache.thread].
  [[nodiscard]] static std::shared_ptr<store_state> open(const std::string& directory, const options& how);
  [[nodiscard]] std::shared_ptr<store_state> keep_open() const { return kept_open_.lock(); }

  store_state(const std::string& directory, const options& how);
  ~store_state() { close_files(); }
  store_state(const store_state&) = delete;
  store_state& operator=(const store_state&) = delete;
  void close();
  // Of this process, which a fork has made: what waited for its locks there would be waited for, and is not here.
  [[nodiscard]] bool is_of_the_parent() const;
  void require_of_this_process() const;

  [[nodiscard]] open_transaction* begin(bool writes);
  // Lazily; it ends the transaction.
  ticket commit(open_transaction& tx);
  void abort(open_transaction& tx) noexcept;
  // Of a transaction that has changed nothing.
  void end(open_transaction& tx) noexcept;
  void release(open_transaction& tx);
  // Of one that is on no thread's list.
  void leave(const open_transaction& tx) noexcept;

  // Whether the address is a home address of this store. Without the mutex.
  [[nodiscard]] bool has_home(std::uint64_t address) const { return databases_.at(address) != nullptr; }
  void require_other_homes(const store_state& other) const;
  // Where the target of the identifier is; the word gets it [cache.fault.whole]. `of`: the class of the ref.
  // With object locks the transaction gets a shared lock of the object, and the address in the word is guarded.
  [[nodiscard]] const void* resolve(open_transaction& tx, std::uint64_t& word, const type& declared,
                                    const std::type_info& of);
  // See detail::discover.
  [[nodiscard]] std::uint64_t discover(std::uint64_t& word, const std::type_info& of) noexcept;
  // Whether bytes of an object in memory are there.
  [[nodiscard]] bool has_at(std::uintptr_t address) const;
  // Whether that is made, and not stored.
  [[nodiscard]] bool is_unstored(std::uintptr_t address) const;
  // Of an address in an object that is in memory; 0: there is none.
  [[nodiscard]] std::uint64_t home_of(std::uintptr_t address) const;
  // Whether there is such an object; if so, it is announced.
  bool announce(open_transaction& tx, std::uintptr_t address, std::size_t length);
  // What containers announce that are in an object; and nothing else is.
  void announce_of_container(open_transaction& tx, std::uintptr_t address, std::size_t length) noexcept;
  // making.cpp. Zeros for a new object, or for `count` elements of an array; the transaction may be nullptr for an array that is
  // in no stored object.
  [[nodiscard]] void* make_object(open_transaction& tx, std::string_view database, const type& of);
  [[nodiscard]] void* make_array(open_transaction* tx, const type& of, std::size_t count, std::uintptr_t near);
  // The word of a ref to an object in memory.
  [[nodiscard]] std::uint64_t word_of(std::uintptr_t address) const;
  // Throws errc::bad_free if no object that can be destroyed alone starts there. It is announced.
  void require_destroyable(open_transaction& tx, std::uintptr_t address, const type& of, const std::type_info* dynamic);
  // Its destructor has run.
  void destroy(std::uintptr_t address) noexcept;
  // Of a container. Whether there is such an array. The transaction may be nullptr.
  [[nodiscard]] bool destroy_array(open_transaction* tx, std::uintptr_t address) noexcept;

  // nullptr: there is no such object.
  [[nodiscard]] cached_object* hold(std::uintptr_t address);
  void let_go(cached_object& object) noexcept;

  // roots.cpp. In a transaction: as it has left them, with object locks under a lock of the database's roots.
  [[nodiscard]] std::uint64_t root_word(std::string_view name, std::string_view database, const type& declared,
                                        bool must_be);
  [[nodiscard]] std::vector<std::string> root_names(std::string_view database);
  void set_root(open_transaction& tx, std::string_view name, std::string_view database, std::uint64_t home,
                const type& declared);
  void remove_root(open_transaction& tx, std::string_view name, std::string_view database);
  [[nodiscard]] std::vector<std::string> database_names() const;
  void wait(ticket until);
  [[nodiscard]] statistics stats() const;
  void check() const;
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] bool locks_objects() const { return locks_objects_; }
  // In lock words; 0: there was none left.
  [[nodiscard]] std::uint64_t number() const { return number_ ? number_->bits() : 0; }

 private:
  void open_all(os::disk& disk, std::uint64_t typed_from);
  void nobody_keeps_it_open() noexcept;
  void close_files() noexcept;
  [[nodiscard]] loader::reached reach_and_lock(std::unique_lock<std::mutex>& lock, open_transaction& tx,
                                               std::uint64_t home, const type& declared);
  [[nodiscard]] std::uint64_t home_in_memory(std::uintptr_t address) const;
  void require_usable() const;
  [[nodiscard]] open_database& database(std::string_view name);
  [[nodiscard]] void* make(open_transaction* tx, open_database& in, const type& of, std::uint64_t size, bool is_root);
  void end_object(cached_object& object) noexcept;
  void lock_roots(std::unique_lock<std::mutex>& lock, open_transaction* tx, open_database& of, lock_mode mode);
  open_transaction::root_changes& changed_roots(std::unique_lock<std::mutex>& lock, open_transaction& tx,
                                                open_database& of);
  void committed(open_transaction& tx, const commit_changes& changes,
                 std::span<cached_object* const> destroyed) noexcept;
  void keep_value(open_transaction& tx, cached_object& object, std::size_t offset, std::size_t length);
  void settle(const object_part& part);
  void discard_made(open_transaction& tx) noexcept;
  void forget_changes(open_transaction& tx) noexcept;

  const std::string directory_;
  const bool is_read_only_;
  const bool locks_objects_;
  const std::shared_ptr<const given_number> number_;
  const std::uint32_t fork_generation_;
  std::weak_ptr<store_state> kept_open_;
  std::atomic<bool> closed_{false};
  mutable std::mutex mutex_;
  page_pool pool_;
  std::unique_ptr<rvm::memory> memory_;
  open_databases databases_;
  object_table objects_;
  loader loader_;
  object_locks locks_;
  statistics counts_;
  std::uint64_t pins_ = 0;
  door door_;
};

}  // namespace tenure::cache
