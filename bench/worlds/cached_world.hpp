// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store in a cache as a world: objects come into memory when refs lead to them, and change() says which ones are changed. What
// a dereference has given is valid until the transaction ends, the root too.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <tenure/cache.hpp>
#include <tenure/tenure.hpp>

#include "worlds/breakdown.hpp"

namespace tenure::bench {

struct cached_world {
  template <class T>
  using ptr = tenure::cache::ref<T>;
  template <class T>
  using field = T;
  using string = tenure::string;
  template <class T>
  using vector = tenure::vector<T>;
  template <class K, class V>
  using map = tenure::map<K, V>;
  template <class K, class V>
  using multimap = tenure::multimap<K, V>;
  template <class K, class V>
  using hash_map = tenure::hash_map<K, V>;
  static constexpr bool persistent = true;
  static constexpr bool virtual_functions = true;
  static constexpr bool evicts = true;
  inline static tenure::cache::options how;  // the next store is opened

  // A cache leaves roots as they are: a store that is mapped makes the root, before create().
  template <class T>
  static void make_root(const std::filesystem::path& directory) {
    tenure::store mapped((directory / "store").string());
    mapped.transact([&] { (void)mapped.root<T>("root"); });
  }
  static void create(const std::filesystem::path& directory, std::uint64_t) { open(directory); }
  static void open(const std::filesystem::path& directory) {
    opened = std::make_unique<tenure::cache::store>((directory / "store").string(), how);
  }
  static void close() {
    current.reset();
    opened.reset();
  }
  // Its containers announce what they change.
  template <class T>
  static T& root() {
    return const_cast<T&>(*opened->root<T>("root"));
  }
  template <class T, class... Args>
  static ptr<T> make(Args&&... args) {
    return opened->make<T>(std::forward<Args>(args)...);
  }
  template <class T>
  static void destroy(const ptr<T>& at) {
    opened->destroy(at);
  }
  template <class T>
  static ptr<T> pointer_to(T& object) {
    return ptr<T>(&object);
  }
  template <class T>
  static T& change(const T& object) {
    return tenure::cache::change(object);
  }
  static void begin() { current = std::make_unique<tenure::cache::transaction>(opened->begin()); }
  static void commit() {
    current->commit(tenure::cache::commit_mode::durable);
    current.reset();
  }
  static commit_phases commit_in_phases() {
    tenure::ticket made;
    const commit_phases took =
        measure_commit([&] { made = current->commit(tenure::cache::commit_mode::lazy); }, [&] { opened->wait(made); });
    current.reset();
    return took;
  }
  static void checkpoint() {
    commit();
    begin();
  }
  static std::string setting() {
    return how.transactions == tenure::cache::concurrency::object_locks
               ? "object cache, a lock for each object, durable commits"
               : "object cache, one writer, durable commits";
  }
  static breakdown_counts breakdown() {
    const tenure::cache::statistics s = opened->stats();
    return {{"cache-faults", static_cast<double>(s.faults)},
            {"cache-loaded", static_cast<double>(s.loaded)},
            {"cache-evicted", static_cast<double>(s.evicted)},
            {"cache-page-reads", static_cast<double>(s.page_reads)}};
  }

  template <class Map, class K>
  static auto find(const Map& in, const K& key) {
    const auto found = in.find(key);
    return found == in.end() ? nullptr : &found->second;
  }
  template <class Map, class K, class V>
  static void insert(Map& in, const K& key, const V& value) {
    in.emplace(key, value);
  }
  template <class Map, class K, class V>
  static void erase(Map& in, const K& key, const V&) {
    in.erase(key);
  }
  template <class Map, class K, class F>
  static void scan(const Map& in, const K& from, F&& f) {
    for (auto at = in.lower_bound(from); at != in.end(); ++at)
      if (!f(at->first, at->second)) return;
  }
  template <class Vector, class T>
  static void set(Vector& in, std::size_t i, const T& value) {
    change(std::as_const(in)[i]) = value;
  }
  static std::string_view view(const string& of) { return {of.data(), of.size()}; }
  static void assign(string& to, std::string_view text) { to.assign(text.data(), text.size()); }
  static void replace_front(string& in, std::size_t length, std::string_view by) { in.replace(0, length, by); }

 private:
  inline static std::unique_ptr<tenure::cache::store> opened;
  inline static std::unique_ptr<tenure::cache::transaction> current;
};

}  // namespace tenure::bench
