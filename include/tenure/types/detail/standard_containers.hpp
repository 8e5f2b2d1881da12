// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Descriptions of the standard containers with tenure::allocator, and of the nodes that they allocate, in the layout of
// libstdc++ (gcc 5 and later). If a size is not as expected, as in its debug mode or in other libraries, they are
// conservative. Strings and nodes point into themselves, and nodes point into their container. These are ordinary
// references.
//
// Strings and nodes point into themselves, and nodes into their container: these are references like others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <tenure/types/detail/standard.hpp>
#include <tenure/types/fields.hpp>

namespace tenure {

template <class T>
class allocator;

namespace detail {

// Objects that a container allocates one by one. All of their bytes are live.
template <class T>
inline constexpr bool is_container_node = false;

// The type of a container's allocation for T. Arrays may have more slots than values, and unused slots hold old values.
template <class T>
const type& element_type() {
  if constexpr (is_container_node<T>) {
    return type_of<T>();
  } else {
    static const type& chosen = []() -> const type& {
      const type& t = type_of<T>();
      const pointer_map map(t);
      if (!map.has_pointers() && !map.has_vtables()) return t;
      return *new type(stale_slots_of(t));
    }();
    return chosen;
  }
}

#if defined(__GLIBCXX__)

inline type_field word_field(field_kind kind, const char* name, std::uint64_t offset, const char* type_name) {
  type_field f;
  f.kind = kind;
  f.name = name;
  f.offset = offset;
  f.size = sizeof(void*);
  f.type_name = type_name;
  return f;
}
inline void add_reference(type& t, const char* name, std::uint64_t offset, const char* type_name) {
  t.fields.push_back(word_field(field_kind::reference, name, offset, type_name));
}
inline void add_derived(type& t, const char* name, std::uint64_t offset, const char* type_name) {
  t.fields.push_back(word_field(field_kind::derived, name, offset, type_name));
}

// A class without components to describe.
template <class T, std::size_t Size>
struct container_layout {
  using components = type_list<>;
  static constexpr bool exact = sizeof(T) == Size;
};

// --- string, vector, deque ---

template <class C, class Traits>
struct standard<std::basic_string<C, Traits, allocator<C>>>
    : container_layout<std::basic_string<C, Traits, allocator<C>>, 32> {
  using allocated = type_list<arrays_of<C>>;
  static void describe(type& t) {
    add_field<C*>(t.fields, "data", 0);  // points into the string itself if it is short
    add_field<std::size_t>(t.fields, "length", 8);
    add_field<C[16 / sizeof(C)]>(t.fields, "short", 16);  // or the capacity
  }
};

template <class T>
struct standard<std::vector<T, allocator<T>>> : container_layout<std::vector<T, allocator<T>>, 24> {
  using allocated = type_list<arrays_of<T>>;
  static void describe(type& t) {
    add_field<T*>(t.fields, "begin", 0);
    add_derived(t, "end", 8, t.fields[0].type_name.c_str());
    add_derived(t, "end_of_storage", 16, t.fields[0].type_name.c_str());
  }
};
template <>
struct standard<std::vector<bool, allocator<bool>>> : container_layout<std::vector<bool, allocator<bool>>, 40> {
  using allocated = type_list<arrays_of<unsigned long>>;
  static void describe(type& t) {
    add_field<unsigned long*>(t.fields, "begin", 0);
    add_field<unsigned>(t.fields, "begin_bit", 8);
    add_derived(t, "end", 16, "unsigned long*");
    add_field<unsigned>(t.fields, "end_bit", 24);
    add_derived(t, "end_of_storage", 32, "unsigned long*");
  }
};

template <class T>
struct standard<std::deque<T, allocator<T>>> : container_layout<std::deque<T, allocator<T>>, 80> {
  using allocated = type_list<arrays_of<T>, arrays_of<T*>>;
  static void describe(type& t) {
    add_field<T**>(t.fields, "map", 0);
    add_field<std::size_t>(t.fields, "map_size", 8);
    for (const std::uint64_t iterator : {16, 48}) {
      const std::string name = iterator == 16 ? "start" : "finish";
      add_field<T*>(t.fields, name + ".current", iterator);
      add_field<T*>(t.fields, name + ".first", iterator + 8);
      add_derived(t, (name + ".last").c_str(), iterator + 16, t.fields.back().type_name.c_str());
      add_field<T**>(t.fields, name + ".node", iterator + 24);
    }
  }
};

// --- Lists ---

template <class T>
struct standard<std::list<T, allocator<T>>> : container_layout<std::list<T, allocator<T>>, 24> {
  using allocated = type_list<std::_List_node<T>>;
  static void describe(type& t) {
    add_reference(t, "next", 0, "std::__detail::_List_node_base*");
    add_reference(t, "previous", 8, "std::__detail::_List_node_base*");
    add_field<std::size_t>(t.fields, "size", 16);
  }
};
template <class T>
inline constexpr bool is_container_node<std::_List_node<T>> = true;
template <class T>
struct standard<std::_List_node<T>> {
  using components = type_list<T>;
  static constexpr bool exact = true;
  static void describe(type& t) {
    const auto* node = static_cast<const std::_List_node<T>*>(nowhere());
    add_reference(t, "next", 0, "std::__detail::_List_node_base*");
    add_reference(t, "previous", 8, "std::__detail::_List_node_base*");
    add_field<T>(t.fields, "value", distance(node, node->_M_valptr()));
  }
};

template <class T>
struct standard<std::forward_list<T, allocator<T>>> : container_layout<std::forward_list<T, allocator<T>>, 8> {
  using allocated = type_list<std::_Fwd_list_node<T>>;
  static void describe(type& t) { add_reference(t, "next", 0, "std::_Fwd_list_node_base*"); }
};
template <class T>
inline constexpr bool is_container_node<std::_Fwd_list_node<T>> = true;
template <class T>
struct standard<std::_Fwd_list_node<T>> {
  using components = type_list<T>;
  static constexpr bool exact = true;
  static void describe(type& t) {
    const auto* node = static_cast<const std::_Fwd_list_node<T>*>(nowhere());
    add_reference(t, "next", 0, "std::_Fwd_list_node_base*");
    add_field<T>(t.fields, "value", distance(node, node->_M_valptr()));
  }
};

// --- Trees ---

// The comparison, then the header: a node without a value, and the size.
template <class Tree, class Less>
struct tree_layout {
  using components = type_list<Less>;
  using allocated = type_list<std::_Rb_tree_node<typename Tree::value_type>>;
  static constexpr std::uint64_t header = std::is_empty_v<Less> ? 8 : (sizeof(Less) + 7) / 8 * 8;
  static constexpr bool exact = sizeof(Tree) == header + 40;
  static void describe(type& t) {
    add_field<Less>(t.fields, "less", 0);
    add_field<std::_Rb_tree_color>(t.fields, "color", header);
    for (const auto& [name, offset] : {std::pair{"root", 8}, std::pair{"leftmost", 16}, std::pair{"rightmost", 24}})
      add_reference(t, name, header + static_cast<std::uint64_t>(offset), "std::_Rb_tree_node_base*");
    add_field<std::size_t>(t.fields, "size", header + 32);
  }
};
template <class K, class V, class Less>
struct standard<std::map<K, V, Less, allocator<std::pair<const K, V>>>>
    : tree_layout<std::map<K, V, Less, allocator<std::pair<const K, V>>>, Less> {};
template <class K, class V, class Less>
struct standard<std::multimap<K, V, Less, allocator<std::pair<const K, V>>>>
    : tree_layout<std::multimap<K, V, Less, allocator<std::pair<const K, V>>>, Less> {};
template <class K, class Less>
struct standard<std::set<K, Less, allocator<K>>> : tree_layout<std::set<K, Less, allocator<K>>, Less> {};
template <class K, class Less>
struct standard<std::multiset<K, Less, allocator<K>>> : tree_layout<std::multiset<K, Less, allocator<K>>, Less> {};

template <class T>
inline constexpr bool is_container_node<std::_Rb_tree_node<T>> = true;
template <class T>
struct standard<std::_Rb_tree_node<T>> {
  using components = type_list<T>;
  static constexpr bool exact = true;
  static void describe(type& t) {
    const auto* node = static_cast<const std::_Rb_tree_node<T>*>(nowhere());
    add_field<std::_Rb_tree_color>(t.fields, "color", 0);
    add_reference(t, "parent", 8, "std::_Rb_tree_node_base*");
    add_reference(t, "left", 16, "std::_Rb_tree_node_base*");
    add_reference(t, "right", 24, "std::_Rb_tree_node_base*");
    add_field<T>(t.fields, "value", distance(node, node->_M_valptr()));
  }
};

// --- Hash tables ---

// The result of a hash function for a certain value. In another build it may differ, and then the stored table would be
// wrong. So it is a field without bytes, and part of the fingerprint.
template <class K, class Hash>
void add_hash_probe(type& t) {
  std::size_t probe = 0;
  if constexpr (std::is_default_constructible_v<Hash>) {
    if constexpr (std::is_integral_v<K> || std::is_enum_v<K>)
      probe = Hash()(static_cast<K>(42));
    else if constexpr (std::is_pointer_v<K>) {
      // The program's own function may look at the object.
      if constexpr (std::is_same_v<Hash, std::hash<K>>) probe = Hash()(static_cast<K>(nowhere()));
    } else if constexpr (std::is_constructible_v<K, const char*>)
      probe = Hash()(K("tenure"));
    else if constexpr (std::is_default_constructible_v<K>)
      probe = Hash()(K());
  }
  type_field f;
  f.name = "hash probe " + std::to_string(probe);
  f.offset = t.size;
  f.type_name = readable_name(typeid(Hash));
  t.fields.push_back(std::move(f));
}

template <class Table, class K, class Hash>
struct table_layout : container_layout<Table, 56> {
  using allocated =
      type_list<arrays_of<std::__detail::_Hash_node_base*>,
                std::__detail::_Hash_node<typename Table::value_type, std::__cache_default<K, Hash>::value>>;
  static void describe(type& t) {
    add_reference(t, "buckets", 0, "std::__detail::_Hash_node_base**");  // into the table itself if there is one bucket
    add_field<std::size_t>(t.fields, "bucket_count", 8);
    add_reference(t, "first", 16, "std::__detail::_Hash_node_base*");
    add_field<std::size_t>(t.fields, "size", 24);
    add_field<float>(t.fields, "max_load_factor", 32);
    add_field<std::size_t>(t.fields, "next_resize", 40);
    add_reference(t, "single_bucket", 48, "std::__detail::_Hash_node_base*");
    add_hash_probe<K, Hash>(t);
  }
};
template <class K, class V, class Hash, class Equal>
struct standard<std::unordered_map<K, V, Hash, Equal, allocator<std::pair<const K, V>>>>
    : table_layout<std::unordered_map<K, V, Hash, Equal, allocator<std::pair<const K, V>>>, K, Hash> {};
template <class K, class V, class Hash, class Equal>
struct standard<std::unordered_multimap<K, V, Hash, Equal, allocator<std::pair<const K, V>>>>
    : table_layout<std::unordered_multimap<K, V, Hash, Equal, allocator<std::pair<const K, V>>>, K, Hash> {};
template <class K, class Hash, class Equal>
struct standard<std::unordered_set<K, Hash, Equal, allocator<K>>>
    : table_layout<std::unordered_set<K, Hash, Equal, allocator<K>>, K, Hash> {};
template <class K, class Hash, class Equal>
struct standard<std::unordered_multiset<K, Hash, Equal, allocator<K>>>
    : table_layout<std::unordered_multiset<K, Hash, Equal, allocator<K>>, K, Hash> {};

template <>
struct standard<std::__detail::_Hash_node_base> {
  using components = type_list<>;
  static constexpr bool exact = true;
  static void describe(type& t) { add_reference(t, "next", 0, "std::__detail::_Hash_node_base*"); }
};
template <class T, bool Cached>
inline constexpr bool is_container_node<std::__detail::_Hash_node<T, Cached>> = true;
template <class T, bool Cached>
struct standard<std::__detail::_Hash_node<T, Cached>> {
  using components = type_list<T>;
  static constexpr bool exact = true;
  static void describe(type& t) {
    const auto* node = static_cast<const std::__detail::_Hash_node<T, Cached>*>(nowhere());
    add_reference(t, "next", 0, "std::__detail::_Hash_node_base*");
    add_field<T>(t.fields, "value", distance(node, node->_M_valptr()));
    if constexpr (Cached) add_field<std::size_t>(t.fields, "hash", distance(node, std::addressof(node->_M_hash_code)));
  }
};

#endif

}  // namespace detail
}  // namespace tenure
