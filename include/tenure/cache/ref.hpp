// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// cache::ref<T>: a reference from one persistent object to another, which checks whether its target is in memory.
//
//     struct part {
//       int weight;
//       tenure::cache::ref<part> next;
//     };
//     for (auto p = store.root<part>("first"); p; p = p->next) sum += p->weight;
//
// It is stored as a part* is, and the store describes it as one, so the class may have a part* in programs that map the store.
// In memory it is one word [Hosking §3.2; White & DeWitt §3]:
//   0                  null
//   an address         of the target's copy in the cache, which is used as it is [cache.ref.word];
//   home address + 1   the target need not be in the cache: the next use brings it there, and leaves its address here;
//   a guarded address  where transactions lock objects: the next use gets a lock of the target, if the transaction has none
//                      (tenure/cache/guarded_word.hpp).
// In objects of a store that is mapped (tenure/store.hpp) it is always an address, so one text serves both kinds of stores.
//
// What a dereference gives is valid until the thread's transaction ends, or calls release(), and longer if it is pinned. So is
// a ref in the program's own memory that was dereferenced, or was copied from an object: it may be an address. To keep a ref
// longer, keep a cache::identity (tenure/cache/store.hpp). A ref that an object of the store has is valid as long as the object.
//
// Threads: those that have read transactions may use one ref at the same time. Otherwise as for a T*.
//
// Errors of a dereference: errc::bad_transaction without a transaction of the store, or if no store has it, errc::cache_full if
// there is no room for the object beside those that must stay, errc::wrong_type if the object is no T, errc::damaged if it cannot be read, or if none
// is there, with the object and the page; then nothing has changed. errc::bad_type: the object has a ref to an odd address, as of
// a char in an array, which no ref can be.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <tenure/cache/guarded_word.hpp>
#include <tenure/containers/hash.hpp>
#include <tenure/registry.hpp>
#include <tenure/types/detail/reference_words.hpp>
#include <tenure/types/fields.hpp>

namespace tenure::cache {

#pragma GCC visibility push(default)  // libtenure.so exports it

template <class T>
class ref;

namespace detail {

// Where the target of the word is in memory, which is a `declared`. Leaves the address in the word.
[[nodiscard]] const void* resolve(std::uint64_t& word, const type& declared, const std::type_info& of);
// The word, which is an identifier; or the address of its target if that is in memory, and refs of this class have led to such
// objects before. Leaves it in the word, too. Reads no page.
[[nodiscard]] std::uint64_t discover(std::uint64_t& word, const std::type_info& of) noexcept;
// The home address of the target of a word that is not null.
[[nodiscard]] std::uint64_t home_of(std::uint64_t word) noexcept;
// Whether the object in memory was made by a container in a cache, and no commit has stored it.
[[nodiscard]] bool is_unstored(const void* at) noexcept;
// What announces a change of the object in which these bytes lie.
void announce_change(const void* at, std::size_t length);

// Registers T, so that the types of objects that it leads to are known by name.
template <class T>
inline const register_type<T> registered;

// The same subobject as base: for classes without virtual bases this needs no object.
template <class Base, class Derived>
[[nodiscard]] std::uint64_t converted(std::uint64_t word) noexcept {
  static_assert(!tenure::detail::is_virtual_base<Derived, Base>,
                "tenure: where a virtual base lies is only known of an object: convert what the ref gives");
  // The low bit stays as it is.
  constexpr std::uint64_t somewhere = std::uint64_t{1} << 32U;
  const auto offset =
      reinterpret_cast<std::uintptr_t>(static_cast<Base*>(reinterpret_cast<Derived*>(somewhere))) - somewhere;
  if (word == 0) return 0;
  if (offset != 0 && is_guarded(word)) word = home_of(address_in(word)) + 1;  // guards lie before whole objects
  return word + offset;
}

}  // namespace detail

// What a ref is, for containers and comparisons: a T* that is looked at before it is followed.
template <class T>
class ref {
 public:
  using element_type = T;
  using relocatable = ref;

  constexpr ref() noexcept = default;
  constexpr ref(std::nullptr_t) noexcept {}
  // To an object that is in memory: of a mapped store, or one that a dereference has given.
  ref(T* resident) noexcept : word_(reinterpret_cast<std::uintptr_t>(resident)) {}
  // A copy is a discovery: a loop over `at = at->next` swizzles the refs of the objects, and not only its own.
  ref(const ref& other) noexcept : word_(other.discovered()) {}
  template <class U>
  requires(!std::is_same_v<U, T> && std::convertible_to<U*, T*>) ref(const ref<U>& other)
  noexcept : word_(convert(other)) {}
  ~ref() = default;
  ref& operator=(const ref& other) noexcept {
    __atomic_store_n(&word_, other.discovered(), __ATOMIC_RELEASE);
    return *this;
  }

  // The target, brought into memory if it is not there. nullptr: the ref is null.
  [[nodiscard]] const T* get() const {
    const std::uint64_t word = load();
    if ((word & 1U) != 0) [[unlikely]]
      return checked(word);
    return reinterpret_cast<const T*>(word);
  }
  const T& operator*() const { return *get(); }
  const T* operator->() const { return get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return load() != 0; }

  // Announces a change of the target, which must be in memory or is brought there: the reference is for changes in the
  // same transaction. What the target has plain pointers to, as the elements of its vectors, are other objects: announce
  // assignments to them with cache::change. Containers announce what they change themselves. Throws as a dereference does, and
  // errc::read_only in a transaction that only reads.
  [[nodiscard]] T& change() const {
    T* const target = const_cast<T*>(get());
    detail::announce_change(target, sizeof(T));
    return *target;
  }

  // The address that is stored for the ref: an identity of its target. 0: null.
  [[nodiscard]] std::uint64_t home() const noexcept {
    const std::uint64_t word = load();
    if (word == 0) return 0;
    return (word & detail::guard_bits) == 1 ? word - 1 : detail::home_of(detail::address_in(word));
  }
  // The target, if the next dereference finds an address that needs no lock; otherwise nullptr, also if the target is in memory.
  // Never a fault: for those who have something else to do then (tenure/cache/method_cache.hpp).
  [[nodiscard]] const T* resident() const noexcept {
    const std::uint64_t word = load();
    return (word & 1U) != 0 ? nullptr : reinterpret_cast<const T*>(word);
  }
  // Whether the next dereference finds an address that needs no lock. For tests and measurements.
  [[nodiscard]] bool is_swizzled() const noexcept { return load() != 0 && (load() & 1U) == 0; }

  // Refs are equal if their targets are the same, and ordered as the addresses that are stored.
  friend bool operator==(const ref& a, const ref& b) noexcept {
    const std::uint64_t one = a.load(), other = b.load();
    if (one == other) return true;
    if (((one | other) & 1U) == 0) return false;  // one target has one address
    if (detail::is_guarded(one) && detail::is_guarded(other)) return false;
    return a.home() == b.home();
  }
  friend std::strong_ordering operator<=>(const ref& a, const ref& b) noexcept { return a.home() <=> b.home(); }
  friend bool operator==(const ref& a, std::nullptr_t) noexcept { return !a; }

 private:
  template <class>
  friend class ref;
  friend class store;
  template <class>
  friend class identity;

  struct from_word {
    std::uint64_t word;
  };
  explicit ref(from_word from) noexcept : word_(from.word) {}
  template <class U>
  [[nodiscard]] static std::uint64_t convert(const ref<U>& other) noexcept {
    return detail::converted<T, U>(other.discovered());
  }

  [[nodiscard]] std::uint64_t load() const noexcept { return __atomic_load_n(&word_, __ATOMIC_ACQUIRE); }
  [[nodiscard]] std::uint64_t discovered() const noexcept {
    const std::uint64_t word = load();
    return (word & 1U) == 0 || detail::is_guarded(word) ? word : detail::discover(word_, typeid(ref));
  }
  // The lowest bit is set.
  [[nodiscard]] const T* checked(std::uint64_t word) const {
    if (static_cast<std::int64_t>(word) >= 0) return faulted();
    const std::uint64_t address = word - detail::guard_bits;
    if (detail::is_locked(address) || detail::lock_shared(address)) return reinterpret_cast<const T*>(address);
    return faulted();
  }
  [[gnu::noinline, gnu::cold]] const T* faulted() const {
    (void)&detail::registered<T>;
    return static_cast<const T*>(detail::resolve(word_, type_of<std::remove_cv_t<T>>(), typeid(ref)));
  }

  // A dereference of a const ref may put the address here.
  mutable std::uint64_t word_ = 0;
};

// Announces a change of an object, or of part of one, that a dereference has given: an element of a vector, for example.
template <class T>
[[nodiscard]] T& change(const T& resident) {
  detail::announce_change(__builtin_addressof(resident), sizeof(T));
  return const_cast<T&>(resident);
}

#pragma GCC visibility pop

}  // namespace tenure::cache

template <class T>
struct tenure::detail::reference_word<tenure::cache::ref<T>> {
  static constexpr bool is = true;
  using target = T;
};

// That of the pointer that is stored.
template <class T>
struct tenure::hash<tenure::cache::ref<T>> {
  static constexpr std::uint32_t id = 1;
  std::uint64_t operator()(const tenure::cache::ref<T>& r, std::uint64_t seed) const noexcept {
    return tenure::detail::hash_number(r.home(), seed);
  }
};

template <class T>
struct std::hash<tenure::cache::ref<T>> {
  std::size_t operator()(const tenure::cache::ref<T>& r) const noexcept { return std::hash<std::uint64_t>()(r.home()); }
};
