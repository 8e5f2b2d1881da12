// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// For language runtimes whose objects are in a cache: a message is sent without a residency check of its own, because the cache of
// methods is probed with the receiver's class, and what is not in memory has none [Hosking §4.2.1].
//
//     struct behaviour;                                // a class of the language
//     struct object {
//       behaviour* of;                                 // a plain pointer: an object comes with its class
//       tenure::cache::ref<object> fields[4];          // refs: these come when they are sent a message
//     };
//     tenure::cache::method_cache<&object::of, const symbol*, method> methods;
//     const method& found = methods.find(receiver, selector, [](const behaviour& of, const symbol* selector) {
//       return look_up(of, selector);                  // ascends the classes; only if the cache does not know
//     });
//     run(found, *receiver);                           // the receiver is in memory
//
// What must be in memory together is said by plain pointers: an object with its class, a method with its literals, a frame with its
// receiver. Such constraints are not symmetric. They are kept by every fault [cache.fault.whole]. References that may be followed
// without being sent a message, as superclasses in a lookup, are refs, and check.
//
// Whose class is known: objects to which the ref has an address. Others, and with object locks all those of which the thread's
// transaction got the lock by this ref, take the slow way through a dereference.
//
// Not thread-safe: each thread has its own.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <tenure/cache/ref.hpp>
#include <tenure/containers/hash.hpp>
#include <tenure/error.hpp>

namespace tenure::cache {

namespace detail {
template <class Object, class Class>
Object object_of(Class* Object::*);
template <class Object, class Class>
Class class_of(Class* Object::*);
}  // namespace detail

// `Of`: the member that leads to the class. `Entries`: a power of two.
template <auto Of, class Selector, class Method, std::size_t Entries = 1024>
class method_cache {
  static_assert((Entries & (Entries - 1)) == 0 && Entries != 0, "tenure: a method cache has a power of two of entries");

 public:
  using object = decltype(detail::object_of(Of));
  using behaviour = decltype(detail::class_of(Of));

  // The method for the receiver, which is in memory then and valid as after a dereference. `look_up` is called as (const behaviour&,
  // const Selector&), and returns a Method that stays until clear(). Throws as a dereference does; errc::bad_option if the
  // receiver is null, or has no class; and what look_up throws.
  template <class LookUp>
  [[nodiscard]] const Method& find(const ref<object>& receiver, const Selector& selector, LookUp&& look_up) {
    if (const object* const at = receiver.resident()) [[likely]] {
      const behaviour* const of = at->*Of;
      if (const entry& known = entry_for(of, selector);
          known.method != nullptr && known.of == of && known.selector == selector) [[likely]]
        return *known.method;
    }
    return find_slowly(receiver, selector, look_up);
  }

  // What it knows are addresses, of classes and methods: forget them when a transaction ends, or calls release(), unless they are
  // pinned.
  void clear() { entries_ = {}; }

  // Calls of look_up, and receivers that were not at an address.
  [[nodiscard]] std::uint64_t lookups() const { return lookups_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }

 private:
  struct entry {
    const behaviour* of = nullptr;
    Selector selector{};
    const Method* method = nullptr;
  };

  [[nodiscard]] entry& entry_for(const behaviour* of, const Selector& selector) {
    // Hashes of numbers are often the numbers, and those of addresses end with zeros: the upper bits of a product have all of both.
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
    const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(of) + std::hash<Selector>()(selector) * odd) * odd;
    return entries_[mixed >> 1 >> (63 - std::countr_zero(Entries))];
  }

  template <class LookUp>
  [[gnu::noinline]] const Method& find_slowly(const ref<object>& receiver, const Selector& selector, LookUp& look_up) {
    if (receiver.resident() == nullptr) ++faults_;
    const object* const at = receiver.get();
    if (at == nullptr) throw error(errc::bad_option, "a message was sent to a null reference");
    const behaviour* const of = at->*Of;
    if (of == nullptr) throw error(errc::bad_option, "a message was sent to an object that has no class");
    entry& known = entry_for(of, selector);
    if (known.method == nullptr || known.of != of || known.selector != selector) {
      ++lookups_;
      const Method& found = look_up(*of, selector);
      known = {of, selector, &found};
    }
    return *known.method;
  }

  std::array<entry, Entries> entries_{};
  std::uint64_t lookups_ = 0, faults_ = 0;
};

}  // namespace tenure::cache
