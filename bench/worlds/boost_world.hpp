// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Boost.Interprocess as a world: offset pointers in a managed mapped file. A commit is msync of the file: durable, not
// atomic. No virtual functions: the address of a table of functions means nothing to the next process.
#pragma once

#if __has_include(<boost/interprocess/managed_mapped_file.hpp>)
#define TENURE_HAVE_BOOST_INTERPROCESS

#include <cerrno>
#include <memory>
#include <system_error>

#include <sys/mman.h>
#include <boost/interprocess/managed_mapped_file.hpp>
#include <boost/interprocess/offset_ptr.hpp>

#include "worlds/plain_world.hpp"

namespace tenure::bench {

struct boost_memory {
  template <class T>
  using ptr = boost::interprocess::offset_ptr<T>;
  template <class T>
  static ptr<T> allocate(std::size_t n) {
    return static_cast<T*>(file.allocate_aligned(n * sizeof(T), std::max(alignof(T), alignof(std::max_align_t))));
  }
  template <class T>
  static void deallocate(const ptr<T>& at, std::size_t) {
    file.deallocate(at.get());
  }
  template <class T, class... Args>
  static ptr<T> make(Args&&... args) {
    return ::new (file.allocate(sizeof(T))) T{std::forward<Args>(args)...};
  }
  template <class T>
  static void destroy(const ptr<T>& at) {
    std::destroy_at(at.get());
    file.deallocate(at.get());
  }
  template <class T>
  static ptr<T> pointer_to(T& object) {
    return &object;
  }
  static void writing(const void*, std::size_t) {}

 protected:
  inline static boost::interprocess::managed_mapped_file file;
};

struct boost_world : boost_memory, own_containers<boost_memory> {
  template <class T>
  using field = T;
  static constexpr bool persistent = true;
  static constexpr bool virtual_functions = false;

  static void create(const std::filesystem::path& directory, std::uint64_t bytes) {
    file = {boost::interprocess::create_only, path(directory).c_str(), bytes};
  }
  static void open(const std::filesystem::path& directory) {
    file = {boost::interprocess::open_only, path(directory).c_str()};
  }
  static void close() { file = {}; }
  template <class T>
  static T& root() {
    return *file.find_or_construct<T>("root")();
  }
  static void begin() {}
  static void commit() {
    if (::msync(file.get_address(), file.get_size(), MS_SYNC) != 0)
      throw std::system_error(errno, std::generic_category(), "msync");
  }
  static void checkpoint() { commit(); }
  static std::string setting() { return "offset_ptr, msync of the file; not atomic, no virtual functions"; }
  static breakdown_counts breakdown() { return {}; }

 private:
  static std::filesystem::path path(const std::filesystem::path& directory) { return directory / "objects"; }
};

}  // namespace tenure::bench
#endif
