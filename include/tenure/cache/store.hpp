// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store whose databases are not mapped: see tenure/cache.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tenure/cache/options.hpp>
#include <tenure/cache/ref.hpp>
#include <tenure/cache/transaction.hpp>

namespace tenure::cache {

class store_state;
struct cached_object;
template <class T>
class pin;

#pragma GCC visibility push(default)  // libtenure.so exports it

namespace detail {

// Keeps an object in memory, with its group.
class held_object {
 public:
  held_object() = default;
  explicit held_object(const void* resident);
  ~held_object() { reset(); }
  held_object(held_object&& other) noexcept
      : store_(std::move(other.store_)), object_(std::exchange(other.object_, nullptr)) {}
  held_object& operator=(held_object&& other) noexcept;
  void reset() noexcept;

 private:
  std::shared_ptr<store_state> store_;
  cached_object* object_ = nullptr;
};

}  // namespace detail

// Which object a ref means, for as long as the store is open. It is no reference: it keeps nothing in memory.
template <class T>
class identity {
 public:
  identity() = default;
  identity(const ref<T>& of) noexcept : home_(of.home()) {}
  // Of its object, which need not be in memory.
  [[nodiscard]] ref<T> get() const noexcept { return ref<T>(typename ref<T>::from_word{home_ == 0 ? 0 : home_ + 1}); }
  [[nodiscard]] std::uint64_t home() const noexcept { return home_; }
  friend auto operator<=>(const identity&, const identity&) = default;

 private:
  std::uint64_t home_ = 0;
};

// An existing store, opened in a cache. Errors: every function may throw tenure::error: errc::closed after close(), and those
// that are named below. Threads: any number may use a store at once, except while it is opened, closed, moved or destroyed.
// options::transactions says which transactions may be open at once.
class store {
 public:
  // Opens the store in the directory, and recovers. Throws errc::in_use if another process, or another store of this one, has it
  // open, mapped or in a cache (other processes that only read are let in if this one does, too); errc::address_taken if another
  // store that this process has in a cache has some of the same home addresses, as a copy has; errc::schema_mismatch if a
  // registered type is stored with another layout; errc::bad_option; std::errc::no_such_file_or_directory.
  explicit store(const std::string& directory, const options& how = {});
  // Closes it, once its open transactions have ended, which may commit still, and its pins.
  ~store();
  store(store&&) noexcept;
  store& operator=(store&&) noexcept;
  // Throws errc::transactions_open, and changes nothing, while transactions are open or objects are pinned. After every other failure
  // the store is closed, and its files are released.
  void close();

  // Waits for other transactions to end. Throws errc::bad_transaction if this thread has a transaction of the store already, and
  // errc::read_only.
  [[nodiscard]] transaction begin();
  [[nodiscard]] read_transaction begin_read();
  // Runs f() in a transaction and commits it; aborts it, and throws on, if f throws.
  template <class F>
  ticket transact(F&& f, commit_mode mode = commit_mode::durable) {
    transaction tx = begin();
    std::forward<F>(f)();
    return tx.commit(mode);
  }
  // Runs f() in a read transaction, and returns what it returns.
  template <class F>
  decltype(auto) read(F&& f) {
    const read_transaction reading = begin_read();
    return std::forward<F>(f)();
  }

  // The object of a root. Throws errc::no_such_root, errc::wrong_type, errc::damaged. `database`: its name.
  template <class T>
  [[nodiscard]] ref<T> root(std::string_view name, std::string_view database = "main") {
    return ref<T>(typename ref<T>::from_word{root_word<T>(name, database, true)});
  }
  // The same; null if there is no such root.
  template <class T>
  [[nodiscard]] ref<T> find_root(std::string_view name, std::string_view database = "main") {
    return ref<T>(typename ref<T>::from_word{root_word<T>(name, database, false)});
  }
  // Makes the object the root of this name, in place of what that is, in a transaction of this thread that changes the store; an abort
  // leaves roots as they were. The object is a T, no part or base of another one, and in this database, or throws errc::cannot_persist. Throws
  // errc::bad_transaction, errc::read_only, errc::bad_option if the name does not have 1 to 4096 bytes; and as a dereference does.
  template <class T>
  void set_root(std::string_view name, const ref<T>& object, std::string_view database = "main") {
    set_root_to(name, database, object.home(), type_of<std::remove_cv_t<T>>());
  }
  // The object stays, and is garbage if nothing else leads to it. Throws errc::no_such_root, errc::bad_transaction, errc::read_only.
  void remove_root(std::string_view name, std::string_view database = "main");
  // Makes an object in a transaction of this thread that changes the store: T(args...), or T{args...}. Its address in the store is
  // its own from now on. The commit stores it, whether something leads to it or not (what nothing leads to is garbage, which
  // collections of tenure::store take); an abort takes it back. The library's containers in it get memory of the store, as do all
  // that are used in such a transaction. Throws errc::bad_transaction, errc::read_only; errc::cache_full; errc::out_of_memory if the database is
  // full; errc::schema_mismatch if T is stored with another layout; errc::bad_type if T's layout is not known exactly.
  template <class T, class... Arguments>
  ref<T> make(Arguments&&... arguments) {
    return make_in<T>("main", std::forward<Arguments>(arguments)...);
  }
  // The same in the database of this name.
  template <class T, class... Arguments>
  ref<T> make_in(std::string_view database, Arguments&&... arguments) {
    static_assert(!std::is_reference_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T>,
                  "name the plain type of the object");
    (void)&detail::registered<T>;
    void* const memory = make_object(database, type_of<T>());
    try {
      if constexpr (std::is_constructible_v<T, Arguments...>)
        ::new (memory) T(std::forward<Arguments>(arguments)...);
      else
        ::new (memory) T{std::forward<Arguments>(arguments)...};
    } catch (...) {
      end_object(memory);
      throw;
    }
    return ref<T>(typename ref<T>::from_word{word_of(memory)});
  }
  // Ends an object, made in a cache or by tenure::store, in a transaction that changes the store. Its destructor runs now, and
  // the commit takes it out of the store; an abort leaves it as it was. No ref to it may be left: nobody looks for them, and its
  // place is used again. T is its type, or a base with a virtual destructor. A null ref does nothing. Throws errc::bad_free if it
  // is no object of its own, or was destroyed already, or if its database has weak references. The commit throws errc::cannot_persist if
  // it is a root still, and destroy throws errc::bad_free if the transaction has made it one.
  template <class T>
  void destroy(const ref<T>& object) {
    T* const target = const_cast<T*>(object.get());
    if (target == nullptr) return;
    void* at = target;
    const std::type_info* dynamic = nullptr;
    if constexpr (std::is_polymorphic_v<T>) {
      at = dynamic_cast<void*>(target);
      dynamic = &typeid(*target);
    }
    require_destroyable(at, type_of<T>(), dynamic);
    target->~T();
    end_object(at);
  }
  [[nodiscard]] std::vector<std::string> root_names(std::string_view database = "main") const;
  [[nodiscard]] std::vector<std::string> databases() const;

  void wait(ticket until);
  [[nodiscard]] statistics stats() const;
  // Throws errc::damaged if an invariant does not hold, for tests. While no other thread uses the store.
  void check() const;

 private:
  template <class T>
  std::uint64_t root_word(std::string_view name, std::string_view database, bool must_be) {
    (void)&detail::registered<T>;
    return find_root_word(name, database, type_of<std::remove_cv_t<T>>(), must_be);
  }
  [[nodiscard]] std::uint64_t find_root_word(std::string_view name, std::string_view database, const type& declared,
                                             bool must_be);
  void set_root_to(std::string_view name, std::string_view database, std::uint64_t home, const type& declared);
  [[nodiscard]] void* make_object(std::string_view database, const type& of);
  void end_object(void* at) noexcept;
  [[nodiscard]] std::uint64_t word_of(const void* at) const;
  void require_destroyable(const void* at, const type& of, const std::type_info* dynamic) const;
  [[nodiscard]] open_transaction& open_here(const char* to_do) const;
  [[nodiscard]] store_state& state() const;
  std::shared_ptr<store_state> state_;
};

// An object that stays in memory beyond the transaction, with all that it has plain pointers to. Made in a transaction of the
// store, like a dereference. Ends before its store is closed. It does not lock the object: outside of a transaction other threads
// may be changing it, or have destroyed it.
template <class T>
class pin {
 public:
  explicit pin(const ref<T>& r) : object_(r.get()), held_(object_) {}
  [[nodiscard]] const T* get() const noexcept { return object_; }
  const T& operator*() const noexcept { return *object_; }
  const T* operator->() const noexcept { return object_; }

 private:
  const T* object_;
  detail::held_object held_;
};

#pragma GCC visibility pop

}  // namespace tenure::cache
