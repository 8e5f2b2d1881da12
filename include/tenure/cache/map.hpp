// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// cache::map<K, V>: an ordered map whose nodes come into a cache one by one, so it may be larger than the cache. (A tenure::map has
// plain pointers between its nodes: it comes and goes as a whole [cache.group].)
//
//     struct catalogue {
//       tenure::cache::map<tenure::string, tenure::cache::ref<part>> by_name;
//     };
//     store.transact([&] { store.root<catalogue>("catalogue")->by_name.insert("bolt", bolt); });
//     const auto* const found = store.root<catalogue>("catalogue")->by_name.find("bolt");
//
// It is a B+-tree [Comer, "The ubiquitous B-tree", 1979] of nodes of 2 KiB, and is used in the same way where the store is mapped.
//
// Everything here is for transactions, as refs are: what a function returns is valid until the transaction ends, calls release(), or
// changes the map. Functions that change a map are const, as ref::change is: they announce what they change.
//
// With object locks a lookup locks the nodes on its way as others that read, and a change locks a leaf alone. So those who change
// different parts of a map seldom wait for each other, and there is no counter of entries that all of them would change.
//
// Errors: those of a dereference, and of cache::ref::change; errc::out_of_memory. A function that throws has changed nothing.
//
// Schema changes: a class that is a value may change. If it becomes larger, the tree is built anew, with all nodes in memory
// (docs/caveats.md). What keys may do: docs/rewrite.md.
//
// K and V: default constructible, with moves that are noexcept; K has a copy constructor, and refers to no objects. Compare has no state.
// A map cannot be copied or moved. One that ends leaves the nodes that are stored to collections (tenure::store::collect, `tenure gc`):
// clear() takes them out, and reads all of them.
//
// Threads: as for a tenure::map, but see concurrency::object_locks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <tenure/cache/ref.hpp>
#include <tenure/containers/detail/errors.hpp>
#include <tenure/containers/detail/ordered_tree.hpp>
#include <tenure/containers/detail/relocate.hpp>
#include <tenure/containers/heap_memory.hpp>
#include <tenure/containers/less.hpp>
#include <tenure/types/persist.hpp>

namespace tenure::cache {

namespace detail {

inline constexpr std::size_t map_node_bytes = 2048;
inline constexpr std::size_t map_least_slots = 8;

struct map_node {
  std::uint32_t count = 0;  // leaf: entries; inner node: children
  std::uint32_t level = 0;  // 0: leaf; the children of a node are one level below it
};

// Slots from `count` on are as T() makes them.
template <class K, class V>
struct map_leaf : map_node {
  static constexpr std::size_t slots =
      std::max(map_least_slots, (map_node_bytes - sizeof(map_node) - sizeof(ref<map_leaf>)) / (sizeof(K) + sizeof(V)));

  ref<map_leaf> next{};
  K keys[slots]{};
  V values[slots]{};

  static constexpr auto persistent =
      bases<map_node>{} + members<&map_leaf::next, &map_leaf::keys, &map_leaf::values>{} + rest_is_data{};
};

// Keys in children[i] are not before keys[i], and before keys[i + 1]. keys[0] is not used.
template <class K>
struct map_inner : map_node {
  static constexpr std::size_t slots =
      std::max(map_least_slots, (map_node_bytes - sizeof(map_node)) / (sizeof(K) + sizeof(ref<map_node>)));

  ref<map_node> children[slots]{};
  K keys[slots]{};

  static constexpr auto persistent =
      bases<map_node>{} + members<&map_inner::children, &map_inner::keys>{} + rest_is_data{};
};

// Slots of a node that is changed. Free ones are T().
template <class T>
void open_slot(T* slots, std::size_t at, std::size_t count) noexcept {
  if constexpr (is_relocatable<T>::value) {
    std::memmove(static_cast<void*>(slots + at + 1), static_cast<const void*>(slots + at), (count - at) * sizeof(T));
    std::construct_at(slots + at);
  } else {
    for (std::size_t n = count; n > at; --n) slots[n] = std::move(slots[n - 1]);
  }
}
template <class T>
void close_slot(T* slots, std::size_t at, std::size_t count) noexcept {
  if constexpr (is_relocatable<T>::value) {
    std::destroy_at(slots + at);
    std::memmove(static_cast<void*>(slots + at), static_cast<const void*>(slots + at + 1),
                 (count - at - 1) * sizeof(T));
    std::construct_at(slots + count - 1);
  } else {
    for (std::size_t n = at; n + 1 < count; ++n) slots[n] = std::move(slots[n + 1]);
    slots[count - 1] = T();
  }
}
template <class T>
void move_slots(T* to, T* from, std::size_t count) noexcept {
  for (std::size_t n = 0; n < count; ++n) {
    if constexpr (is_relocatable<T>::value) {
      std::memcpy(static_cast<void*>(to + n), static_cast<const void*>(from + n), sizeof(T));
      std::construct_at(from + n);
    } else {
      to[n] = std::move(from[n]);
      from[n] = T();
    }
  }
}

}  // namespace detail

template <class K, class V, class Compare = less<K>>
class map {
  using node = detail::map_node;
  using leaf = detail::map_leaf<K, V>;
  using inner = detail::map_inner<K>;
  template <class Q>
  using query_for = typename tenure::detail::query<tenure::detail::transparent<Compare>>::template type<Q, K>;
  static_assert(std::is_empty_v<Compare> && std::is_default_constructible_v<Compare>,
                "orders of maps have no state: it could not persist");
  static_assert(!std::is_pointer_v<K> && !tenure::detail::reference_word<K>::is,
                "keys of a cache::map refer to no objects: the map keeps copies of keys that were erased");
  static_assert(std::is_default_constructible_v<K> && std::is_default_constructible_v<V> &&
                    std::is_copy_constructible_v<K> && std::is_nothrow_move_assignable_v<K> &&
                    std::is_nothrow_move_assignable_v<V>,
                "keys and values of a cache::map have default constructors, and moves that are noexcept");

 public:
  using key_type = K;
  using mapped_type = V;

  // Of constant entries, in the order of their keys. Going on to the next leaf may be a fault.
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::pair<const K&, const V&>;
    using reference = value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = void;

    const_iterator() noexcept = default;
    [[nodiscard]] reference operator*() const noexcept { return {in_->keys[at_], in_->values[at_]}; }
    [[nodiscard]] const K& key() const noexcept { return in_->keys[at_]; }
    [[nodiscard]] const V& value() const noexcept { return in_->values[at_]; }
    const_iterator& operator++() {
      if (++at_ == in_->count) *this = const_iterator(in_->next.get(), 0);
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const const_iterator&, const const_iterator&) noexcept = default;

   private:
    friend class map;
    const_iterator(const leaf* in, std::uint32_t at) noexcept : in_(in), at_(at) {}
    const leaf* in_ = nullptr;  // nullptr: the end
    std::uint32_t at_ = 0;
  };
  using iterator = const_iterator;

  map() noexcept = default;
  ~map() { free_unstored(); }
  map(const map&) = delete;
  map& operator=(const map&) = delete;

  [[nodiscard]] bool empty() const noexcept { return !root_; }
  // Reads all leaves.
  [[nodiscard]] std::size_t size() const {
    std::size_t entries = 0;
    for (const leaf* in = first_leaf(); in != nullptr; in = in->next.get()) entries += in->count;
    return entries;
  }

  [[nodiscard]] const_iterator begin() const { return {first_leaf(), 0}; }
  [[nodiscard]] const_iterator end() const noexcept { return {}; }
  // The first entry whose key is not before this one.
  template <class Q = K>
  [[nodiscard]] const_iterator lower_bound(const query_for<Q>& given) const {
    decltype(auto) key = tenure::detail::prepared<Compare>(given);
    const leaf* const in = leaf_for(key);
    if (in == nullptr) return {};
    const std::uint32_t at = lower_in(in, key);
    return at < in->count ? const_iterator(in, at) : const_iterator(in->next.get(), 0);
  }

  // nullptr: there is no such key.
  template <class Q = K>
  [[nodiscard]] const V* find(const query_for<Q>& given) const {
    decltype(auto) key = tenure::detail::prepared<Compare>(given);
    const leaf* const in = leaf_for(key);
    if (in == nullptr) return nullptr;
    const std::uint32_t at = lower_in(in, key);
    return has_at(in, at, key) ? in->values + at : nullptr;
  }
  template <class Q = K>
  [[nodiscard]] bool contains(const query_for<Q>& key) const {
    return find<Q>(key) != nullptr;
  }
  // The same for a change of the value, which is announced.
  template <class Q = K>
  [[nodiscard]] V* change(const query_for<Q>& given) const {
    const V* const found = find<Q>(given);
    return found == nullptr ? nullptr : &cache::change(*found);
  }

  // Returns whether it was inserted: whether the key was not there.
  bool insert(K key, V value) const {
    path way;
    const leaf* const in = leaf_for(key, way);
    const std::uint32_t at = in == nullptr ? 0 : lower_in(in, key);
    if (in != nullptr && has_at(in, at, key)) return false;
    put(way, in, at, std::move(key), std::move(value));
    return true;
  }
  void insert_or_assign(K key, V value) const {
    path way;
    const leaf* const in = leaf_for(key, way);
    const std::uint32_t at = in == nullptr ? 0 : lower_in(in, key);
    if (in != nullptr && has_at(in, at, key))
      changed(in)->values[at] = std::move(value);
    else
      put(way, in, at, std::move(key), std::move(value));
  }
  // Returns whether the key was there.
  template <class Q = K>
  bool erase(const query_for<Q>& given) const {
    decltype(auto) key = tenure::detail::prepared<Compare>(given);
    path way;
    const leaf* const in = leaf_for(key, way);
    if (in == nullptr) return false;
    const std::uint32_t at = lower_in(in, key);
    if (!has_at(in, at, key)) return false;
    take(way, in, at);
    return true;
  }
  // Reads all nodes.
  void clear() const {
    if (!root_) return;
    const ref<node> root = root_;
    announce_all(root.get());
    (void)cache::change(*this);
    set_root(nullptr, nullptr);
    free_all(root.get());
  }

  // Throws errc::damaged if an invariant of the tree does not hold. Reads all nodes.
  void check() const {
    if (!root_) return;
    const leaf* last = nullptr;
    check_node(root_.get(), root_->level, nullptr, nullptr, last);
    require(!last->next, last, "the last leaf is followed by none");
    const node* n = root_.get();
    while (n->level != 0) n = child_of(as_inner(n), 0);
    require(first_leaf() == n, n, "the map knows its first leaf");
  }

 private:
  static constexpr std::size_t most_levels = 24;
  // From the root to the parent of a leaf, and which child was next.
  struct path {
    struct step {
      const inner* in;
      std::uint32_t child;
    };
    std::array<step, most_levels> steps;
    std::size_t length = 0;
  };

  template <class A, class B>
  static bool before(const A& a, const B& b) {
    return Compare{}(a, b);
  }
  template <class Q>
  static std::uint32_t lower_in(const leaf* in, const Q& key) {
    return tenure::detail::partition_point(in->count, [&](std::uint32_t n) { return before(in->keys[n], key); });
  }
  template <class Q>
  static bool has_at(const leaf* in, std::uint32_t at, const Q& key) {
    return at < in->count && !before(key, in->keys[at]);
  }
  template <class Q>
  static std::uint32_t child_for(const inner* in, const Q& key) {
    return tenure::detail::partition_point(in->count - 1,
                                           [&](std::uint32_t n) { return !before(key, in->keys[n + 1]); });
  }
  static const inner* as_inner(const node* n) { return static_cast<const inner*>(n); }
  static const leaf* as_leaf(const node* n) { return static_cast<const leaf*>(n); }
  static const node* child_of(const inner* in, std::uint32_t n) {
    const node* const found = in->children[n].get();
    require(found != nullptr, in, "an inner node has as many children as it says");
    return found;
  }
  // For a change, which is announced.
  template <class N>
  static N* changed(const N* n) {
    return &cache::change(*n);
  }

  // nullptr: the map is empty.
  template <class Q>
  [[nodiscard]] const leaf* leaf_for(const Q& key) const {
    const node* n = root_.get();
    while (n != nullptr && n->level != 0) n = child_of(as_inner(n), child_for(as_inner(n), key));
    return as_leaf(n);
  }
  template <class Q>
  [[nodiscard]] const leaf* leaf_for(const Q& key, path& way) const {
    const node* n = root_.get();
    while (n != nullptr && n->level != 0) {
      require(way.length < most_levels, n, "a tree has few levels");
      const std::uint32_t child = child_for(as_inner(n), key);
      way.steps[way.length++] = {as_inner(n), child};
      n = child_of(as_inner(n), child);
    }
    return as_leaf(n);
  }
  // It stays the first one as long as the map is not empty: leaves are split and merged into their left one.
  [[nodiscard]] const leaf* first_leaf() const { return first_.get(); }

  // It is announced.
  void set_root(const ref<node>& to) const noexcept { const_cast<ref<node>&>(root_) = to; }
  void set_root(const ref<node>& to, const ref<leaf>& first) const noexcept {
    set_root(to);
    const_cast<ref<leaf>&>(first_) = first;
  }

  // --- Nodes ---

  template <class N>
  [[nodiscard]] N* make(std::uint32_t level) const {
    N* const made = ::new (static_cast<void*>(heap_memory::allocate<N>(1, this))) N();
    made->level = level;
    return made;
  }
  template <class N>
  static void free(N* n) noexcept {
    std::destroy_at(n);
    heap_memory::deallocate(n, 1);
  }
  // Those that an insertion needs; freed if it does not happen.
  struct spare_nodes {
    leaf* right = nullptr;
    std::array<inner*, most_levels + 1> inners{};
    std::size_t count = 0, taken = 0;

    spare_nodes() = default;
    spare_nodes(const spare_nodes&) = delete;
    spare_nodes& operator=(const spare_nodes&) = delete;
    ~spare_nodes() {
      if (right != nullptr) free(right);
      while (taken < count) free(inners[taken++]);
    }
  };

  // Nobody else will, if the map was in no object of a store that the transaction has committed. If it was, its first leaf is
  // stored, and leads to all others: new ones are stored, too. Not so new nodes above old ones.
  void free_unstored() const noexcept {
    const leaf* const first = first_.resident();
    free_unstored(root_, first != nullptr && detail::is_unstored(first));
  }
  static void free_unstored(const ref<node>& of, bool with_leaves) noexcept {
    auto* const n = const_cast<node*>(of.resident());
    if (n == nullptr || !detail::is_unstored(n)) return;
    if (n->level == 0) {
      if (with_leaves) free(static_cast<leaf*>(n));
      return;
    }
    for (std::uint32_t child = 0; child < n->count; ++child)
      free_unstored(static_cast<inner*>(n)->children[child], with_leaves);
    free(static_cast<inner*>(n));
  }

  // --- Inserting ---

  // Everything that may throw comes first: announcements, new nodes, and a copy of a key.
  void put(const path& way, const leaf* found, std::uint32_t at, K&& key, V&& value) const {
    if (found == nullptr) {
      (void)cache::change(*this);
      leaf* const only = make<leaf>(0);
      put_in(only, 0, std::move(key), std::move(value));
      return set_root(only, only);
    }
    leaf* const left = changed(found);
    if (left->count < leaf::slots) return put_in(left, at, std::move(key), std::move(value));

    const bool is_last = !left->next && at == leaf::slots;  // sorted input leaves full nodes
    const auto cut = static_cast<std::uint32_t>(is_last ? leaf::slots : leaf::slots / 2);
    const bool goes_right = is_last || at > cut;
    std::size_t full = 0;  // inner nodes that must be split, from below
    while (full < way.length && step_above(way, full).in->count == inner::slots) ++full;
    for (std::size_t n = 0; n <= full && n < way.length; ++n) (void)changed(step_above(way, n).in);
    if (full == way.length) (void)cache::change(*this);
    spare_nodes spare;
    spare.right = make<leaf>(0);
    for (std::size_t n = 0; n < full; ++n) add_inner(spare, static_cast<std::uint32_t>(n + 1));
    if (full == way.length) add_inner(spare, static_cast<std::uint32_t>(full + 1));
    K separator(is_last ? key : left->keys[cut]);

    leaf* const right = std::exchange(spare.right, nullptr);
    detail::move_slots(right->keys, left->keys + cut, leaf::slots - cut);
    detail::move_slots(right->values, left->values + cut, leaf::slots - cut);
    right->count = static_cast<std::uint32_t>(leaf::slots) - cut;
    left->count = cut;
    right->next = left->next;
    left->next = right;
    put_in(goes_right ? right : left, goes_right ? at - cut : at, std::move(key), std::move(value));
    link(way, right, separator, is_last, spare);
  }
  // From below.
  static const typename path::step& step_above(const path& way, std::size_t level) {
    return way.steps[way.length - 1 - level];
  }
  void add_inner(spare_nodes& to, std::uint32_t level) const {
    to.inners[to.count] = make<inner>(level);
    ++to.count;
  }
  static void put_in(leaf* in, std::uint32_t at, K&& key, V&& value) noexcept {
    detail::open_slot(in->keys, at, in->count);
    detail::open_slot(in->values, at, in->count);
    in->keys[at] = std::move(key);
    in->values[at] = std::move(value);
    ++in->count;
  }
  static void put_child(inner* in, std::uint32_t at, const ref<node>& child, K& key) noexcept {
    detail::open_slot(in->children, at, in->count);
    detail::open_slot(in->keys, at, in->count);
    in->children[at] = child;
    if (at != 0) in->keys[at] = std::move(key);
    ++in->count;
  }
  // Puts a node behind the one that was split. The nodes on the way are announced.
  void link(const path& way, node* made, K& key, bool is_last, spare_nodes& spare) const noexcept {
    ref<node> right = made;
    for (std::size_t level = 0; level < way.length; ++level) {
      auto* const in = const_cast<inner*>(step_above(way, level).in);
      const std::uint32_t at = step_above(way, level).child + 1;
      if (in->count < inner::slots) return put_child(in, at, right, key);
      inner* const beside = std::exchange(spare.inners[spare.taken], nullptr);
      ++spare.taken;
      const auto cut = static_cast<std::uint32_t>(is_last ? inner::slots - 1 : inner::slots / 2);
      detail::move_slots(beside->children, in->children + cut, inner::slots - cut);
      detail::move_slots(beside->keys, in->keys + cut, inner::slots - cut);
      beside->count = static_cast<std::uint32_t>(inner::slots) - cut;
      in->count = cut;
      put_child(at > cut ? beside : in, at > cut ? at - cut : at, right, key);
      key = std::move(beside->keys[0]);
      beside->keys[0] = K();
      right = beside;
    }
    inner* const top = std::exchange(spare.inners[spare.taken], nullptr);
    ++spare.taken;
    top->children[0] = root_;
    top->children[1] = right;
    top->keys[1] = std::move(key);
    top->count = 2;
    set_root(top);
  }

  // --- Erasing ---

  // A node that becomes small is merged with a neighbour, or gets a child of it.
  enum class remedy { merge, borrow };
  struct mend {
    inner* parent;
    node *left, *right;
    std::uint32_t at;  // right is the child with this number
    remedy how;
  };

  void take(const path& way, const leaf* found, std::uint32_t at) const {
    leaf* const in = changed(found);
    std::array<mend, most_levels> mends;
    std::size_t count = 0;
    bool root_goes = false;
    const std::uint32_t left_over = plan(way, in, in->count - 1, mends, count);
    if (count == way.length) {  // all were merged, up to the children of the root; or there is only a leaf
      root_goes = left_over == (way.length == 0 ? 0U : 1U);
      if (root_goes) (void)cache::change(*this);
    }
    detail::close_slot(in->keys, at, in->count);
    detail::close_slot(in->values, at, in->count);
    --in->count;
    for (std::size_t n = 0; n < count; ++n) apply(mends[n]);
    if (!root_goes) return;
    node* const root = const_cast<node*>(root_.get());
    if (root->level == 0) {
      set_root(nullptr, nullptr);
      free(static_cast<leaf*>(root));
    } else {
      set_root(static_cast<inner*>(root)->children[0]);
      free(static_cast<inner*>(root));
    }
  }
  // What is to be done once the node has so many entries or children. Announces it. Returns how many the highest node on the way has then of
  // which the plan changes the number.
  std::uint32_t plan(const path& way, const node* n, std::uint32_t left_over, std::array<mend, most_levels>& mends,
                     std::size_t& count) const {
    for (; count < way.length; ++count) {
      const std::size_t slots = n->level == 0 ? leaf::slots : inner::slots;
      if (left_over >= slots / 4) return ~std::uint32_t{0};
      const auto [parent, child] = step_above(way, count);
      require(parent->count >= 2, parent, "an inner node has 2 to `slots` children");
      const std::uint32_t right = child + 1 < parent->count ? child + 1 : child;
      const bool is_left = right != child;
      const node* const beside = child_of(parent, is_left ? right : child - 1);
      const std::uint32_t both = left_over + beside->count;
      const bool is_empty = left_over == (n->level == 0 ? 0U : 1U);
      if (!is_empty && both > slots * 3 / 4) return ~std::uint32_t{0};
      announce_node(n);
      announce_node(beside);
      mend& m = mends[count];
      m = {changed(parent), const_cast<node*>(is_left ? n : beside), const_cast<node*>(is_left ? beside : n), right,
           both > slots ? remedy::borrow : remedy::merge};
      if (m.how == remedy::borrow) {
        ++count;
        return ~std::uint32_t{0};
      }
      n = parent;
      left_over = parent->count - 1;
    }
    return left_over;
  }
  static void announce_node(const node* n) {
    if (n->level == 0)
      (void)changed(as_leaf(n));
    else
      (void)changed(as_inner(n));
  }
  static void apply(const mend& m) noexcept {
    if (m.left->level == 0) {
      merge_leaves(m);
    } else if (m.how == remedy::merge) {
      merge_inners(m);
    } else {
      borrow_child(m);
    }
  }
  static void remove_child(inner* from, std::uint32_t at) noexcept {
    detail::close_slot(from->children, at, from->count);
    detail::close_slot(from->keys, at, from->count);
    --from->count;
  }
  static void merge_leaves(const mend& m) noexcept {
    auto *const left = static_cast<leaf*>(m.left), *const right = static_cast<leaf*>(m.right);
    detail::move_slots(left->keys + left->count, right->keys, right->count);
    detail::move_slots(left->values + left->count, right->values, right->count);
    left->count += right->count;
    left->next = right->next;
    remove_child(m.parent, m.at);
    free(right);
  }
  static void merge_inners(const mend& m) noexcept {
    auto *const left = static_cast<inner*>(m.left), *const right = static_cast<inner*>(m.right);
    right->keys[0] = std::move(m.parent->keys[m.at]);
    detail::move_slots(left->children + left->count, right->children, right->count);
    detail::move_slots(left->keys + left->count, right->keys, right->count);
    left->count += right->count;
    remove_child(m.parent, m.at);
    free(right);
  }
  // One of the two has one child, and the other is full.
  static void borrow_child(const mend& m) noexcept {
    auto *const left = static_cast<inner*>(m.left), *const right = static_cast<inner*>(m.right);
    K& between = m.parent->keys[m.at];
    if (left->count < right->count) {
      put_child(left, left->count, right->children[0], between);
      between = std::move(right->keys[1]);
      remove_child(right, 0);
      right->keys[0] = K();
    } else {
      K none{};
      put_child(right, 0, left->children[left->count - 1], none);
      right->keys[1] = std::move(between);
      between = std::move(left->keys[left->count - 1]);
      remove_child(left, left->count - 1);
    }
  }

  static void announce_all(const node* n) {
    announce_node(n);
    if (n->level != 0)
      for (std::uint32_t child = 0; child < n->count; ++child) announce_all(child_of(as_inner(n), child));
  }
  static void free_all(const node* n) noexcept {
    if (n->level == 0) return free(const_cast<leaf*>(as_leaf(n)));
    for (std::uint32_t child = 0; child < n->count; ++child) free_all(as_inner(n)->children[child].get());
    free(const_cast<inner*>(as_inner(n)));
  }

  // --- Invariants ---

  static void require(bool holds, const void* at, const char* what) {
    if (!holds) tenure::detail::report_damaged_tree(at, what);
  }
  static void check_node(const node* n, std::uint32_t level, const K* low, const K* high, const leaf*& last) {
    require(n->level == level, n, "the children of a node are one level below it");
    const auto check_key = [&](const K& key) {
      require(low == nullptr || !before(key, *low), n, "no key is before the one that leads to its node");
      require(high == nullptr || before(key, *high), n, "keys are before the one that leads behind their node");
    };
    if (level == 0) {
      const leaf* const in = as_leaf(n);
      require(in->count > 0 && in->count <= leaf::slots, n, "a leaf has 1 to `slots` entries");
      require(last == nullptr || last->next.get() == in, n, "leaves are linked in order");
      for (std::uint32_t k = 0; k < in->count; ++k) {
        check_key(in->keys[k]);
        require(k == 0 || before(in->keys[k - 1], in->keys[k]), n, "keys are in order");
      }
      last = in;
      return;
    }
    const inner* const in = as_inner(n);
    require(in->count >= 2 && in->count <= inner::slots, n, "an inner node has 2 to `slots` children");
    for (std::uint32_t c = 0; c < in->count; ++c) {
      if (c != 0) check_key(in->keys[c]);
      require(c < 2 || before(in->keys[c - 1], in->keys[c]), n, "keys of inner nodes are in order");
      check_node(child_of(in, c), level - 1, c == 0 ? low : in->keys + c, c + 1 == in->count ? high : in->keys + c + 1,
                 last);
    }
  }

  ref<node> root_{};  // null: empty
  ref<leaf> first_{};

 public:
  static constexpr auto persistent = members<&map::root_, &map::first_>{};
  using allocated_types = tenure::detail::type_list<leaf, inner>;
};

}  // namespace tenure::cache
