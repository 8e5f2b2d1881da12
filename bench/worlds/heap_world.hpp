// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The object heap as a world: plain pointers, plain members, the library's containers.
#pragma once

#include <memory>
#include <string_view>

#include <tenure/tenure.hpp>

#include "worlds/plain_world.hpp"

namespace tenure::bench {

struct heap_world {
  template <class T>
  using ptr = T*;
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
  inline static tenure::store_options how;  // the next store is opened

  static void create(const std::filesystem::path& directory, std::uint64_t) { open(directory); }
  static void open(const std::filesystem::path& directory) {
    opened = std::make_unique<tenure::store>((directory / "store").string(), how);
  }
  static void close() { opened.reset(); }
  static tenure::store& open_store() { return *opened; }
  template <class T>
  static T& root() {
    return opened->root<T>("root");
  }
  template <class T, class... Args>
  static T* make(Args&&... args) {
    return opened->make<T>(std::forward<Args>(args)...);
  }
  template <class T>
  static void destroy(T* at) {
    opened->destroy(at);
  }
  template <class T>
  static T* pointer_to(T& object) {
    return &object;
  }
  static void begin() { current = std::make_unique<tenure::transaction>(opened->begin()); }
  static void commit() {
    current->commit(tenure::commit_mode::durable);
    current.reset();
  }
  static commit_phases commit_in_phases() {
    tenure::ticket made;
    const commit_phases took =
        measure_commit([&] { made = current->commit(tenure::commit_mode::lazy); }, [&] { opened->wait(made); });
    current.reset();
    return took;
  }
  static void checkpoint() { current->checkpoint(); }
  static std::string setting() { return "objects found by reachability, durable commits"; }
  // "tenure::bench::schema<…>::part" is called part; containers' own objects are named with what they hold.
  static std::string short_name(std::string_view type) {
    std::string name;
    for (std::size_t at = 0, depth = 0; at < type.size(); ++at) {
      const char c = type[at];
      if (c == '<') ++depth;
      if (depth == 0) name = type.compare(at, 2, "::") == 0 ? (++at, std::string()) : name + c;
      if (c == '>') --depth;
    }
    return name;
  }
  static breakdown_counts breakdown() {
    breakdown_counts all;
    for (const tenure::type_count& t : opened->stats().total) {
      const std::string name = short_name(t.type);
      all["stabilized-objects/" + name] += static_cast<double>(t.objects);
      all["stabilized-bytes/" + name] += static_cast<double>(t.bytes);
    }
    const tenure::rvm::statistics pages = opened->stats().memory;
    all["changed-pages"] = static_cast<double>(pages.tracking.changed_pages);
    all["changed-bytes"] = static_cast<double>(pages.tracking.changed_bytes);
    all["trapped-pages"] = static_cast<double>(pages.tracking.trapped_pages);
    if (how.stabilize == tenure::stabilization::copying) {
      all["copied-objects"] = static_cast<double>(opened->stats().objects_copied);
      all["pinned-objects"] = static_cast<double>(opened->stats().objects_pinned);
    }
    return all;
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
  template <class K, class V>
  static void erase(tenure::multimap<K, V>& in, const K& key, const V& value) {
    for (auto at = in.lower_bound(key); at != in.end() && !(key < at->first); ++at)
      if (at->second == value) return void(in.erase(at));
  }
  template <class Map, class K, class F>
  static void scan(const Map& in, const K& from, F&& f) {
    for (auto at = in.lower_bound(from); at != in.end(); ++at)
      if (!f(at->first, at->second)) return;
  }
  template <class Vector, class T>
  static void set(Vector& in, std::size_t i, const T& value) {
    in[i] = value;
  }
  static std::string_view view(const string& of) { return {of.data(), of.size()}; }
  static void assign(string& to, std::string_view text) { to.assign(text.data(), text.size()); }
  static void replace_front(string& in, std::size_t length, std::string_view by) { in.replace(0, length, by); }

 private:
  inline static std::unique_ptr<tenure::store> opened;
  inline static std::unique_ptr<tenure::transaction> current;
};

}  // namespace tenure::bench
