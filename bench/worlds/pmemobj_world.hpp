// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// libpmemobj as a world. Debian has its C interface only, so the pointers and fields that its C++ bindings would supply are
// here: a pointer is a pool and an offset; assigning to a field adds it to the transaction's undo log first. The pool is an
// ordinary file, where the library syncs with msync. No virtual functions: pools are mapped anywhere.
#pragma once

#ifdef TENURE_HAVE_PMEMOBJ
#include <memory>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>
#include <libpmemobj.h>

#include "worlds/plain_world.hpp"

namespace tenure::bench {

template <class T>
class pmem_ptr {
 public:
  pmem_ptr() = default;
  pmem_ptr(std::nullptr_t) {}
  explicit pmem_ptr(PMEMoid id) : id_(id) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> pmem_ptr(const pmem_ptr<U>& other)
      : id_(other.id()) {}  // bases lie at offset 0 here
  [[nodiscard]] T* get() const { return static_cast<T*>(pmemobj_direct_inline(id_)); }
  T& operator*() const { return *get(); }
  T* operator->() const { return get(); }
  explicit operator bool() const { return id_.off != 0; }
  friend bool operator==(const pmem_ptr& a, const pmem_ptr& b) { return a.id_.off == b.id_.off; }
  [[nodiscard]] PMEMoid id() const { return id_; }

 private:
  PMEMoid id_ = OID_NULL;
};

// A member that announces its changes.
template <class T>
class pmem_field {
 public:
  pmem_field() = default;
  pmem_field(const T& value) : value_(value) {}
  pmem_field(const pmem_field&) = default;
  pmem_field& operator=(const pmem_field& other) { return *this = other.value_; }
  pmem_field& operator=(const T& value);
  operator const T&() const { return value_; }
  auto& operator*() const { return *value_; }
  auto* operator->() const { return value_.operator->(); }
  explicit operator bool() const requires(!std::is_arithmetic_v<T>) { return static_cast<bool>(value_); }

 private:
  T value_{};
};

struct pmemobj_memory {
  template <class T>
  using ptr = pmem_ptr<T>;
  template <class T>
  static ptr<T> allocate(std::size_t n) {
    const PMEMoid id = pmemobj_tx_alloc(n * sizeof(T), 0);
    if (OID_IS_NULL(id)) fail("pmemobj_tx_alloc");
    return ptr<T>{id};
  }
  template <class T>
  static void deallocate(const ptr<T>& at, std::size_t) {
    if (pmemobj_tx_free(at.id()) != 0) fail("pmemobj_tx_free");
  }
  template <class T, class... Args>
  static ptr<T> make(Args&&... args) {
    const auto at = allocate<T>(1);
    ::new (at.get()) T{std::forward<Args>(args)...};
    return at;
  }
  template <class T>
  static void destroy(const ptr<T>& at) {
    std::destroy_at(at.get());
    deallocate(at, 1);
  }
  template <class T>
  static ptr<T> pointer_to(T& object) {
    return ptr<T>{pmemobj_oid(&object)};
  }
  // Objects may be made outside of the pool, too: what a container keeps on the stack.
  static void writing(const void* at, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    if (address - begin_address >= pool_bytes) return;
    if (pmemobj_tx_add_range_direct(at, bytes) != 0) fail("pmemobj_tx_add_range_direct");
  }

 protected:
  [[noreturn]] static void fail(const char* what) {
    throw std::runtime_error(fmt::format("libpmemobj: {}: {}", what, pmemobj_errormsg()));
  }
  inline static PMEMobjpool* pool = nullptr;
  inline static std::uintptr_t begin_address = 0;
  inline static std::uint64_t pool_bytes = 0;
};

template <class T>
pmem_field<T>& pmem_field<T>::operator=(const T& value) {
  pmemobj_memory::writing(&value_, sizeof value_);
  value_ = value;
  return *this;
}

struct pmemobj_world : pmemobj_memory, own_containers<pmemobj_memory> {
  template <class T>
  using field = pmem_field<T>;
  static constexpr bool persistent = true;
  static constexpr bool virtual_functions = false;

  static void create(const std::filesystem::path& directory, std::uint64_t bytes) {
    found(pmemobj_create(path(directory).c_str(), "world", bytes, 0600), directory);
  }
  static void open(const std::filesystem::path& directory) {
    found(pmemobj_open(path(directory).c_str(), "world"), directory);
  }
  static void close() {
    if (pool != nullptr) pmemobj_close(pool);
    pool = nullptr;
  }
  template <class T>
  static T& root() {
    // Zeros are what T's members are at first.
    return *static_cast<T*>(pmemobj_direct(pmemobj_root(pool, sizeof(T))));
  }
  static void begin() {
    if (pmemobj_tx_begin(pool, nullptr, TX_PARAM_NONE) != 0) fail("pmemobj_tx_begin");
  }
  static void commit() {
    pmemobj_tx_commit();
    if (pmemobj_tx_end() != 0) fail("transaction");
  }
  static void checkpoint() {
    commit();
    begin();
  }
  static std::string setting() {
    return "pointers of 16 bytes, undo log by field, ordinary file; no virtual functions";
  }
  static breakdown_counts breakdown() { return {}; }

 private:
  static std::string path(const std::filesystem::path& directory) { return (directory / "pool").string(); }
  static void found(PMEMobjpool* opened, const std::filesystem::path& directory) {
    if (opened == nullptr) fail("no pool");
    pool = opened;
    begin_address = reinterpret_cast<std::uintptr_t>(opened);
    pool_bytes = std::filesystem::file_size(path(directory));
  }
};

}  // namespace tenure::bench
#endif
