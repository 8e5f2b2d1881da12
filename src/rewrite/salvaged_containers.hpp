// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Containers of a damaged store that have lost some of their memory. What can be reached without passing a lost object stays in
// them, in order and counted; otherwise they become empty [heap.rewrite.repair.containers].
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rewrite/container_places.hpp"
#include "rewrite/damaged_image.hpp"

namespace tenure::rewriting {

class salvaged_containers {
 public:
  explicit salvaged_containers(damaged_image& image) : image_(image) {}

  // Puts the container at an address in order. Returns what it has lost, in words; "": it was in order.
  [[nodiscard]] std::string mend(const container_place& place, address container);

  // Which elements of an array with stale slots are values, as a container says.
  struct range {
    std::uint64_t first, end;
  };
  [[nodiscard]] const range* live_in(address array) const;
  // Entries that lie elsewhere in their node now, or are gone.
  struct moved_entry {
    std::uint64_t size;
    address to;  // 0: it is gone
  };
  [[nodiscard]] const std::map<address, moved_entry>& moved() const { return moved_; }

  // What the type's pointers are declared to refer to, in the order of its words; "": it is not known.
  [[nodiscard]] const std::vector<std::string>& pointees(const type& of, const pointer_map& words);
  [[nodiscard]] const std::vector<container_place>& places_in(const type& of);
  // A reference, or a container, that has lost what it led to: it cannot be in a key any more.
  void note_changed(address at) { changed_.insert(at); }

 private:
  [[nodiscard]] std::string mend_vector(const type& of, address at);
  [[nodiscard]] std::string mend_our_vector(const type& of, address at);
  [[nodiscard]] std::string mend_string(const type& of, address at);
  [[nodiscard]] std::string mend_our_string(const type& of, address at);
  [[nodiscard]] std::string mend_deque(const type& of, address at);
  [[nodiscard]] std::string mend_list(const type& of, address at);
  [[nodiscard]] std::string mend_forward_list(const type& of, address at);
  [[nodiscard]] std::string mend_queue(const type& of, address at);
  [[nodiscard]] std::string mend_tree(const type& of, address at);
  [[nodiscard]] bool may_be_unused(address single, address first, std::uint64_t first_at, const type& of) const;
  [[nodiscard]] std::string mend_table(address at, const type& of);
  [[nodiscard]] static bool has_right_buckets(const type& of, address at, const std::vector<address>& nodes,
                                              const type& node);
  [[nodiscard]] std::string mend_our_table(const type& of, address at);
  [[nodiscard]] std::string mend_our_tree(const type& of, address at);
  [[nodiscard]] std::string mend_cache_map(const type& of, address at);

  // The object that starts where a field of the container leads; none: another one, or none, is there.
  [[nodiscard]] sound_object array_at(const type& of, std::string_view field, address to,
                                      damaged_image::array_extent how_long);
  // The node that starts there, unless another container has it. All of one container have one type, which the first one says.
  [[nodiscard]] bool is_node(address at, const std::string& name, const type*& like);
  // What the nodes of a container of the standard library are called.
  [[nodiscard]] static std::string node_name(const type& of, std::string_view node);
  // Whether the container may have the node, or the array: no other one has it.
  [[nodiscard]] bool claim(address node, address container);
  // Whether the key in these bytes of an element has lost nothing.
  [[nodiscard]] bool is_sound_key(const heap::known_type& of, address element, std::uint64_t from, std::uint64_t to);
  // The same for what a container in a key has, as far as arrays go.
  [[nodiscard]] bool has_sound_elements(const container_place& place, address container);
  void note_live(const sound_object& array, address first, address end);

  [[nodiscard]] static std::string entries_left(std::uint64_t left, std::uint64_t had);

  // A deque's memory.
  struct deque_block {
    address at, first, end;
  };
  [[nodiscard]] static const heap::known_type* array_type(const database_state& in, const type& of,
                                                          std::string_view field);
  [[nodiscard]] bool is_sound_deque(const type& of, address at);
  [[nodiscard]] std::vector<deque_block> blocks_of_deque(const type& of, address at, sound_object& like,
                                                         std::uint64_t& bytes);
  [[nodiscard]] sound_object map_of_deque(const type& of, address at);

  // Red-black trees.
  struct found_nodes {
    std::vector<address> order;
    bool is_whole = true;
  };
  void find_nodes(address top, const std::string& name, const type*& like, std::unordered_set<address>& seen,
                  found_nodes& found);
  [[nodiscard]] static int black_height(address node, int depth);
  address link_balanced(const std::vector<address>& nodes, std::size_t first, std::size_t end, address parent,
                        int depth, int height);

  // B+-trees.
  struct our_tree {
    const type* of;
    address at;
    bool keys_are_entries;
    std::string leaf_name, inner_name;
    const heap::known_type* leaf = nullptr;
    const heap::known_type* inner = nullptr;
    std::uint64_t entries = 0, each = 0, slots = 0, key = 0, key_size = 0;
    std::vector<address> leaves, inners;  // inners: those that can be used again
    std::unordered_set<address> seen;
    bool is_whole = true;
  };
  [[nodiscard]] bool know_leaf(our_tree& tree, const sound_object& leaf);
  [[nodiscard]] std::uint32_t level_of(address node, const std::string& type_name) const;
  [[nodiscard]] bool is_leaf(our_tree& tree, address at);
  void find_leaves(our_tree& tree, address node, address parent, std::uint32_t most_level);
  void find_more_leaves(our_tree& tree);
  [[nodiscard]] bool is_linked(const our_tree& tree);
  [[nodiscard]] std::uint64_t drop_entries(our_tree& tree);
  void move_entry(address from, address to, std::uint64_t bytes);
  [[nodiscard]] bool build_inners(our_tree& tree);
  [[nodiscard]] address take_inner(our_tree& tree);
  [[nodiscard]] bool copy_key(const our_tree& tree, address entry, address separator);
  void empty_tree(const our_tree& tree);
  // Of a cache::map: `entries` are its keys, and its values lie behind them.
  [[nodiscard]] bool know_map_leaf(our_tree& tree, const sound_object& leaf);
  [[nodiscard]] bool is_map_leaf(our_tree& tree, address at);
  void find_map_leaves(our_tree& tree, address node, std::uint32_t most_level);
  void find_more_map_leaves(our_tree& tree);
  [[nodiscard]] std::uint64_t drop_map_entries(our_tree& tree);
  [[nodiscard]] bool build_map(our_tree& tree);

  damaged_image& image_;
  std::unordered_map<address, address> owners_;  // of nodes
  std::unordered_map<address, range> live_;
  std::map<address, moved_entry> moved_;
  std::unordered_set<address> changed_;
  std::unordered_map<const type*, std::vector<std::string>> pointees_;
  std::unordered_map<const type*, std::vector<container_place>> places_;
};

}  // namespace tenure::rewriting
