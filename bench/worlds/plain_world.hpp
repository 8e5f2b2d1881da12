// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Worlds: where the objects of a benchmark live. A program that is written once, as a template over a world W, runs over
// all of them. A world is a class of static members, at most one of each is open at a time:
//
//   ptr<T>                     a pointer to an object there; also what a container holds
//   field<T>                   a member of an object there: reads and writes like a T
//   string, vector<T>, map<K, V>, multimap<K, V>, hash_map<K, V>
//   make<T>(...), destroy(p), pointer_to(object)
//   create(directory, bytes), open(directory), close()    `bytes`: of all objects, for those that must know before
//   root<T>()                  the one root, made when first asked for, in a transaction
//   begin(), commit(), checkpoint()   commits are durable where anything is; a checkpoint commits and begins again
//   persistent                 whether open() finds what was made in another process
//   virtual_functions          whether objects there may have them
//   setting()                  how it is used, for the results
//   change(object)             an object there that is about to be changed, where the world must hear of it
//   evicts                     if there: root() and what pointers lead to are valid until the transaction ends
//   make_root<T>(directory)    if there: makes the root before create()
//   breakdown()                what it tells of itself since open(), see breakdown.hpp
//
// and what is asked of containers, since theirs differ:
//
//   find(map, key)             a const V*, null if there is none
//   insert(map, key, value), erase(map, key, value)       erase: with this very value where there may be several
//   scan(map, from, f)         f(key, value) in order until it returns false
//   set(vector, i, value), view(string), assign(string, text), replace_front(string, n, text)
//
// This file is the floor: plain objects from `new`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "worlds/breakdown.hpp"
#include "worlds/btree.hpp"
#include "worlds/hash_table.hpp"
#include "worlds/sequences.hpp"

namespace tenure::bench {

// What the worlds share whose containers are those of this directory.
template <class M>
struct own_containers {
  using string = memory_string<M>;
  template <class T>
  using vector = memory_vector<M, T>;
  template <class K, class V>
  using map = memory_btree<M, K, V, false>;
  template <class K, class V>
  using multimap = memory_btree<M, K, V, true>;
  template <class K, class V>
  using hash_map = memory_hash_map<M, K, V>;

  template <class K, class V, bool Multi>
  static const V* find(const memory_btree<M, K, V, Multi>& in, const K& key) {
    return in.find_value(key);
  }
  template <class K, class V>
  static const V* find(const memory_hash_map<M, K, V>& in, const K& key) {
    return in.find_value(key);
  }
  template <class Map, class K, class V>
  static void insert(Map& in, const K& key, const V& value) {
    in.insert(key, value);
  }
  template <class K, class V, bool Multi>
  static void erase(memory_btree<M, K, V, Multi>& in, const K& key, const V& value) {
    in.erase(key, value);
  }
  template <class K, class V>
  static void erase(memory_hash_map<M, K, V>& in, const K& key, const V&) {
    in.erase(key);
  }
  template <class Map, class K, class F>
  static void scan(const Map& in, const K& from, F&& f) {
    in.scan(from, std::forward<F>(f));
  }
  template <class Vector, class T>
  static void set(Vector& in, std::size_t i, const T& value) {
    in.set(i, value);
  }
  static std::string_view view(const string& of) { return of.view(); }
  static void assign(string& to, std::string_view text) { to.assign(text); }
  static void replace_front(string& in, std::size_t length, std::string_view by) { in.replace_front(length, by); }
};

struct plain_memory {
  template <class T>
  using ptr = T*;
  template <class T>
  static T* allocate(std::size_t n) {
    return std::allocator<T>{}.allocate(n);
  }
  template <class T>
  static void deallocate(T* at, std::size_t n) {
    std::allocator<T>{}.deallocate(at, n);
  }
  template <class T, class... Args>
  static T* make(Args&&... args) {
    return new T{std::forward<Args>(args)...};
  }
  template <class T>
  static void destroy(T* at) {
    delete at;
  }
  template <class T>
  static T* pointer_to(T& object) {
    return &object;
  }
  static void writing(const void*, std::size_t) {}
};

struct plain_world : plain_memory, own_containers<plain_memory> {
  template <class T>
  using field = T;
  static constexpr bool persistent = false;
  static constexpr bool virtual_functions = true;

  static void create(const std::filesystem::path&, std::uint64_t) {}
  static void open(const std::filesystem::path&) {}
  static void close() { root_holder = nullptr; }
  template <class T>
  static T& root() {
    if (root_holder == nullptr) root_holder = std::make_shared<T>();
    return *static_cast<T*>(root_holder.get());
  }
  static void begin() {}
  static void commit() {}
  static void checkpoint() {}
  static std::string setting() { return "new, not persistent"; }
  static breakdown_counts breakdown() { return {}; }

 private:
  inline static std::shared_ptr<void> root_holder;
};

}  // namespace tenure::bench
