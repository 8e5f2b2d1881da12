// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The containers of the standard library, with memory of the store:
//
//     struct town {
//       tenure::std_map<tenure::std_string, house*> houses;
//       std::vector<road, tenure::allocator<road>> roads;
//     };
//
// They keep their interface, layout and complexity. Their layouts are known exactly with libstdc++; the containers of
// other libraries are traced conservatively. Their memory is in the default database of the store whose write
// transaction the thread has open, or else of the store that was opened last, even if the container is in another
// database. Element types must be persistable. Threads and errors are as in the standard library.
//
// tenure::vector, tenure::map and the others are faster to load, to log and to relocate. The containers here are for
// code that needs the standard's types.
#pragma once

#include <cstddef>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <tenure/types/allocation.hpp>
#include <tenure/types/detail/standard_containers.hpp>
#include <tenure/types/fields.hpp>

namespace tenure {

// All allocators are equal, because they have no state.
template <class T>
class allocator {
 public:
  using value_type = T;
  using is_always_equal = std::true_type;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  allocator() = default;
  template <class U>
  allocator(const allocator<U>&) noexcept {}

  // Throws what heap_memory::allocate throws (heap_memory.hpp). Thread-safe, as is deallocate.
  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(detail::allocate(detail::element_type<T>(), count, nullptr));
  }
  void deallocate(T* memory, std::size_t) noexcept { detail::deallocate(memory); }

  friend bool operator==(const allocator&, const allocator&) noexcept { return true; }
};

using std_string = std::basic_string<char, std::char_traits<char>, allocator<char>>;
template <class T>
using std_vector = std::vector<T, allocator<T>>;
template <class T>
using std_deque = std::deque<T, allocator<T>>;
template <class T>
using std_list = std::list<T, allocator<T>>;
template <class T>
using std_forward_list = std::forward_list<T, allocator<T>>;
template <class K, class V, class Less = std::less<K>>
using std_map = std::map<K, V, Less, allocator<std::pair<const K, V>>>;
template <class K, class V, class Less = std::less<K>>
using std_multimap = std::multimap<K, V, Less, allocator<std::pair<const K, V>>>;
template <class K, class Less = std::less<K>>
using std_set = std::set<K, Less, allocator<K>>;
template <class K, class Less = std::less<K>>
using std_multiset = std::multiset<K, Less, allocator<K>>;
// The hash of a std_string: std::hash of its characters.
struct string_hash {
  [[nodiscard]] std::size_t operator()(const std_string& text) const noexcept {
    return std::hash<std::string_view>()({text.data(), text.size()});
  }
};
template <class K>
using default_hash = std::conditional_t<std::is_same_v<K, std_string>, string_hash, std::hash<K>>;
template <class K, class V, class Hash = default_hash<K>, class Equal = std::equal_to<K>>
using std_unordered_map = std::unordered_map<K, V, Hash, Equal, allocator<std::pair<const K, V>>>;
template <class K, class V, class Hash = default_hash<K>, class Equal = std::equal_to<K>>
using std_unordered_multimap = std::unordered_multimap<K, V, Hash, Equal, allocator<std::pair<const K, V>>>;
template <class K, class Hash = default_hash<K>, class Equal = std::equal_to<K>>
using std_unordered_set = std::unordered_set<K, Hash, Equal, allocator<K>>;
template <class K, class Hash = default_hash<K>, class Equal = std::equal_to<K>>
using std_unordered_multiset = std::unordered_multiset<K, Hash, Equal, allocator<K>>;

}  // namespace tenure
