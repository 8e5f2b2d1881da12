// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The recoverable memory allocator [RVM §4.1]: malloc and free for objects in a region, inside transactions.
//
//     memory.transact([&](auto& tx) { recoverable_heap::format(tx, area); });   // once, in a fresh region
//     recoverable_heap heap{area};                                              // at every start
//     memory.transact([&](auto& tx) {
//       auto* p = heap.make<person>(tx, "Ada");
//       heap.set_root(tx, 0, p);
//     });
//
// An object exists from the commit of the transaction that allocated it to the commit of the one that freed it. Until
// then allocations and frees are known to their transaction only: an abort, or a crash, undoes them without a trace,
// and the memory of an object that is being freed is given to nobody else before the commit. Transactions may allocate
// and free in the same heap at the same time, and end in any order [rvm.heap.interleaved].
//
// Costs: a commit logs 8 bytes of bitmap for up to 64 objects of a size that lie together, and 8 bytes for each span of
// pages that it begins or ends. Objects up to 32 KiB take a slot of a size class (at most a fifth is wasted, or 15
// bytes), larger ones whole pages of 4096 bytes. The bookkeeping takes 1 % of the region.
//
// Thread-safe: threads with transactions of their own may use one heap at the same time. There must be only one
// recoverable_heap for a region at a time. It must outlive the transactions that used it, and the region must outlive
// it. Nothing here starts or commits a transaction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <tenure/rvm.hpp>

namespace tenure::rvm {

#pragma GCC visibility push(default)  // libtenure.so exports it

struct heap_statistics {
  std::uint64_t length = 0;                          // bytes of the region
  std::uint64_t data_bytes = 0;                      // of it, for objects
  std::uint64_t free_bytes = 0;                      // in pages that belong to no span
  std::uint64_t largest_free = 0;                    // the largest object that would find room now, bytes
  std::uint64_t objects = 0, object_bytes = 0;       // committed, with what rounding up takes
  std::uint64_t large_objects = 0, large_bytes = 0;  // of these, the ones above 32 KiB
  std::uint64_t reserved = 0, reserved_bytes = 0;    // allocated by transactions that are open
  std::uint64_t being_freed = 0;                     // freed by transactions that are open
  std::uint64_t spans = 0;                           // runs of pages that hold objects
  std::uint64_t allocations = 0, deallocations = 0;  // calls that succeeded since the heap was attached
};

class recoverable_heap {
 public:
  static constexpr std::size_t root_count = 32;
  static constexpr std::size_t max_alignment = 4096;

  // Makes an empty heap in a region, which must be zero (its first page is looked at: errc::damaged). Attach to it
  // after the commit. errc::bad_option if the region is shorter than 64 KiB.
  static void format(transaction& tx, const region& where);
  // The same for bytes that are page-aligned and mapped by a region; `name` is for messages.
  static void format(transaction& tx, std::byte* bytes, std::size_t length, const std::string& name);
  // Whether the region begins with the mark of a heap.
  [[nodiscard]] static bool is_formatted(const region& where) noexcept;

  // Attaches to a formatted region. Reads the page table, 2 MiB for each GiB in use; bitmaps are read when they are
  // needed. errc::damaged, or errc::wrong_version, naming what is wrong.
  explicit recoverable_heap(const region& where);
  // The same for bytes that are page-aligned and mapped by a region; `name` is for messages.
  recoverable_heap(std::byte* bytes, std::size_t length, std::string name);
  ~recoverable_heap();
  recoverable_heap(recoverable_heap&&) noexcept;
  recoverable_heap& operator=(recoverable_heap&&) noexcept;

  // Room for `bytes` bytes, declared in the transaction (set_range); their contents are unspecified. `alignment` is a
  // power of two up to 4096. errc::out_of_memory, naming the sizes, if there is no room: the transaction goes on.
  [[nodiscard]] void* allocate(transaction& tx, std::size_t bytes, std::size_t alignment = 16);
  // The same, but what the caller fills of it he declares himself.
  [[nodiscard]] void* allocate_undeclared(transaction& tx, std::size_t bytes, std::size_t alignment = 16);
  // Frees what allocate returned, at the commit. nullptr is ignored. errc::bad_free for anything that is no live
  // object: freed before (also by an open transaction), allocated by another open transaction, inside an object,
  // elsewhere.
  void deallocate(transaction& tx, void* object);

  // Allocates and constructs. T must mean something without its constructor and need no destructor.
  template <class T, class... A>
  [[nodiscard]] T* make(transaction& tx, A&&... arguments) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    void* room = allocate(tx, sizeof(T), alignof(T));
    if constexpr (std::is_constructible_v<T, A...>)
      return ::new (room) T(std::forward<A>(arguments)...);
    else
      return ::new (room) T{std::forward<A>(arguments)...};
  }
  // `count` objects in a row, value-initialised. Freed with one destroy() of the first.
  template <class T>
  [[nodiscard]] std::span<T> make_array(transaction& tx, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    T* first = static_cast<T*>(allocate(tx, count * sizeof(T), alignof(T)));
    for (std::size_t i = 0; i < count; ++i) ::new (first + i) T();
    return {first, count};
  }
  template <class T>
  void destroy(transaction& tx, T* object) {
    deallocate(tx, const_cast<std::remove_cv_t<T>*>(object));
  }

  // Roots: where a program finds its objects again. nullptr at first. Ordinary recoverable memory: changed at once, put
  // back by an abort; transactions that set the same root must keep each other out of it. `object` is an address in
  // this heap or nullptr (errc::not_mapped). Throws errc::bad_option for an index not below root_count.
  [[nodiscard]] void* root(std::size_t index) const;
  template <class T>
  [[nodiscard]] T* root(std::size_t index) const {
    return static_cast<T*>(root(index));
  }
  void set_root(transaction& tx, std::size_t index, const void* object);

  // Whether the address lies in the part of the region that holds objects.
  [[nodiscard]] bool contains(const void* address) const noexcept;
  // Bytes that the object has room for, at least what was asked for. errc::bad_free as for deallocate.
  [[nodiscard]] std::size_t usable_size(const void* object) const;

  // Calls f(address, usable size) for every committed object, in the order of addresses. f may use the heap; objects
  // that are committed or freed meanwhile may or may not be seen.
  void for_each_object(const std::function<void(void*, std::size_t)>& f) const;

  // Reads all of the bookkeeping.
  [[nodiscard]] heap_statistics stats() const;
  // Checks every invariant of the stored bytes (heap_format.hpp) and of what is kept in memory about them. Throws
  // errc::damaged, naming the first that does not hold and its place. For tests, and for the suspicious.
  void check() const;

 private:
  struct [[gnu::visibility("hidden")]] state;
  void* take(transaction& tx, std::size_t bytes, std::size_t declared, std::size_t alignment);
  std::unique_ptr<state> state_;
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
