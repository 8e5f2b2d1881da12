// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Maps and sets of the library, and maps of caches, whose entries have become larger: their nodes have no room for all entries any
// more, so the trees are built anew, bottom up. The entries are converted meanwhile; references in them are those of the old ones.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "objects/database_set.hpp"
#include "rewrite/address_orders.hpp"
#include "rewrite/container_places.hpp"
#include "rewrite/conversion_memory.hpp"
#include "rewrite/key_orders.hpp"
#include "rewrite/new_types.hpp"
#include "types/evolution.hpp"

namespace tenure::rewriting {

class rebuilt_trees {
 public:
  rebuilt_trees(const database_set& store, const types::evolution* plan) : store_(store), plan_(plan), made_(store) {}

  // Whether a container of this stored type must be built anew.
  [[nodiscard]] bool concerns(const type& container, const new_types& types) const;
  // The nodes that it had, which are left out. Called for each container first.
  void leave_out(const type& container, address value);
  [[nodiscard]] bool is_left_out(address object) const { return left_out_.contains(object); }
  // Then its nodes, which made() has until the end; the container's pointers to them are patched in `orders`. Calls
  // placed(object) for each node.
  void build(const type& container, address value, const new_types& types, address_orders& orders,
             const std::function<void(tenure::detail::conversion_memory::made_object&)>& placed);

  [[nodiscard]] tenure::detail::conversion_memory& made() { return made_; }
  // Where an address in an old entry is in a new one, in made(). 0: it is in none. `pointee`: what is said to be there.
  [[nodiscard]] address entry_at(address at, std::string_view pointee) const;

 private:
  // Slots of a leaf: those of its entries, or, of a cache::map, those of its keys, or of its values.
  struct slots {
    const type_field *was, *is;
    std::shared_ptr<const type> stored, program;  // of one slot, if that is no class
    std::unique_ptr<types::value_conversion> how;

    [[nodiscard]] std::uint64_t old_size() const { return was->size / was->count; }
    [[nodiscard]] std::uint64_t size() const { return is->size / is->count; }
  };
  // Of one type of trees.
  struct tree_type {
    bool is_of_cache;
    const type* leaf;   // of the program
    const type* inner;  // of the program
    std::vector<slots> all;
    // Of keys, which lie in the first ones.
    std::uint64_t key_offset, key_size;
    std::vector<container_place> texts;           // in a key
    std::vector<address_orders::key_part> order;  // if it depends on addresses
  };
  struct old_slot {
    address leaf;
    std::uint64_t n;
    [[nodiscard]] address in(const slots& all) const { return leaf + all.was->offset + n * all.old_size(); }
  };
  [[nodiscard]] const tree_type& type_of_tree(const type& container, const new_types& types);
  template <class F>
  void for_each_leaf(const type& container, address value, F&& f) const;
  void leave_out_nodes(address node);
  [[nodiscard]] slots planned(const type_field& was, const type_field& is, std::vector<std::string>& problems);
  [[nodiscard]] address make_node(const type& of, bool is_of_cache);
  [[nodiscard]] address make_leaves(const tree_type& of, const std::vector<old_slot>& entries,
                                    const address_orders& orders, std::vector<address>& nodes,
                                    const std::function<void(tenure::detail::conversion_memory::made_object&)>& placed);
  [[nodiscard]] std::vector<address> make_level(
      const tree_type& of, const std::vector<address>& below, std::uint32_t level,
      const std::function<void(tenure::detail::conversion_memory::made_object&)>& placed);
  void copy_key(const tree_type& of, address key, address separator);
  [[nodiscard]] address first_key(const tree_type& of, address node) const;

  const database_set& store_;
  const types::evolution* const plan_;
  tenure::detail::conversion_memory made_;
  std::unordered_set<address> left_out_;
  std::unordered_map<std::string, tree_type> types_;  // by the container's name
  struct new_entry {
    std::uint64_t size;  // of the old one
    address at;          // in made_
    const types::value_conversion* how;
  };
  std::map<address, new_entry> entries_;
};

}  // namespace tenure::rewriting
