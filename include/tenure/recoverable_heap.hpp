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
// An object exists from the commit of the transaction that allocated it to the commit of the transaction that freed it.
// Before these commits, only the transaction itself knows of the allocation or the free: an abort, or a crash, undoes
// it without a trace. The memory of an object that is being freed is not used again before the commit. Transactions may
// allocate and free in the same heap at the same time, and end in any order [rvm.heap.interleaved].
//
// Costs: a commit logs 8 bytes of bitmap for up to 64 adjacent objects of one size, and 8 bytes for each span of pages
// that it begins or ends. Objects up to 32 KiB take a slot of a size class (at most a fifth is wasted, or 15 bytes).
// Larger objects take whole pages of 4096 bytes. The bookkeeping takes 1 % of the region.
//
// Thread-safe: several threads, each with its own transaction, may use one heap at the same time. A region may have
// only one recoverable_heap at a time. The heap must outlive the transactions that used it, and the region must outlive
// the heap. Nothing here starts or commits a transaction.
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
  std::uint64_t data_bytes = 0;                      // of these, for objects
  std::uint64_t free_bytes = 0;                      // in pages that belong to no span
  std::uint64_t largest_free = 0;                    // bytes of the largest object that could be allocated now
  std::uint64_t objects = 0, object_bytes = 0;       // committed; bytes after rounding up
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

  // Makes an empty heap in a region, which must be zero (errc::damaged if its first page is not). Attach to it after
  // the commit. Throws errc::bad_option if the region is shorter than 64 KiB.
  static void format(transaction& tx, const region& where);
  // The same for page-aligned bytes in a mapped region. `name` is for messages.
  static void format(transaction& tx, std::byte* bytes, std::size_t length, const std::string& name);
  // Whether the region begins with the mark of a heap.
  [[nodiscard]] static bool is_formatted(const region& where) noexcept;

  // Attaches to a formatted region. Reads the page table, 2 MiB for each GiB in use. Reads bitmaps later, when they are
  // needed. Throws errc::damaged or errc::wrong_version, with the reason.
  explicit recoverable_heap(const region& where);
  // The same for page-aligned bytes in a mapped region. `name` is for messages.
  recoverable_heap(std::byte* bytes, std::size_t length, std::string name);
  ~recoverable_heap();
  recoverable_heap(recoverable_heap&&) noexcept;
  recoverable_heap& operator=(recoverable_heap&&) noexcept;

  // Allocates `bytes` bytes and declares them in the transaction (set_range). Their contents are unspecified.
  // `alignment` is a power of two up to 4096. Throws errc::out_of_memory, with the sizes, if there is no space; the
  // transaction stays open.
  [[nodiscard]] void* allocate(transaction& tx, std::size_t bytes, std::size_t alignment = 16);
  // Allocates without declaring. The caller declares the bytes that he writes.
  [[nodiscard]] void* allocate_undeclared(transaction& tx, std::size_t bytes, std::size_t alignment = 16);
  // Frees an object that allocate returned, when the transaction commits. nullptr is ignored. Throws errc::bad_free if
  // the address is no live object: freed before (also by an open transaction), allocated by another open transaction,
  // inside an object, or elsewhere.
  void deallocate(transaction& tx, void* object);

  // Allocates and constructs an object. T must be valid without running its constructor again, and need no destructor.
  template <class T, class... A>
  [[nodiscard]] T* make(transaction& tx, A&&... arguments) {
    static_assert(std::is_trivially_copyable_v<T>, "recoverable memory holds trivially copyable types");
    void* room = allocate(tx, sizeof(T), alignof(T));
    if constexpr (std::is_constructible_v<T, A...>)
      return ::new (room) T(std::forward<A>(arguments)...);
    else
      return ::new (room) T{std::forward<A>(arguments)...};
  }
  // Makes an array of `count` value-initialised objects. It is freed with one destroy() of the first.
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

  // Roots: a program finds its objects again through them. At first they are nullptr. They are ordinary recoverable
  // memory: changed at once, and restored by an abort. Transactions that set the same root must exclude each other.
  // `object` is an address in this heap or nullptr (errc::not_mapped). Throws errc::bad_option for an index not below
  // root_count.
  [[nodiscard]] void* root(std::size_t index) const;
  template <class T>
  [[nodiscard]] T* root(std::size_t index) const {
    return static_cast<T*>(root(index));
  }
  void set_root(transaction& tx, std::size_t index, const void* object);

  // Whether the address lies in the part of the region that holds objects.
  [[nodiscard]] bool contains(const void* address) const noexcept;
  // The bytes that the object has, at least the requested number. Throws errc::bad_free as deallocate does.
  [[nodiscard]] std::size_t usable_size(const void* object) const;

  // Calls f(address, usable size) for every committed object, in the order of addresses. f may use the heap. Objects
  // that are committed or freed meanwhile may be visited or not.
  void for_each_object(const std::function<void(void*, std::size_t)>& f) const;

  // The statistics. Reads all of the bookkeeping.
  [[nodiscard]] heap_statistics stats() const;
  // Checks every invariant of the stored bytes (heap_format.hpp) and of the bookkeeping in memory. Throws
  // errc::damaged, with the first invariant that does not hold and its place. For tests, or if damage is suspected.
  void check() const;

 private:
  struct [[gnu::visibility("hidden")]] state;
  void* take(transaction& tx, std::size_t bytes, std::size_t declared, std::size_t alignment);
  std::unique_ptr<state> state_;
};

#pragma GCC visibility pop

}  // namespace tenure::rvm
