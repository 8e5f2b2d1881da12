// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Puts the entries of containers whose order depends on addresses (key_orders.hpp) in the order that they will have [heap.rewrite.order]: hash
// tables of ours and of the standard library, B+-trees, red-black trees. Nothing is written to the store: what differs is a
// list of patches of its bytes, and of entries that lie where others were. References in them are those of the old objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "objects/database_set.hpp"
#include "rewrite/key_orders.hpp"

namespace tenure::rewriting {

using heap::address;

class address_orders {
 public:
  // `moved`: where an address in an object will be, to which a pointer of that type leads. `weakly`: the same for references
  // that keep nothing; 0: nowhere.
  address_orders(const database_set& store, std::function<address(address, std::string_view pointer)> moved,
                 std::function<address(address)> weakly)
      : store_(store), moved_(std::move(moved)), weakly_(std::move(weakly)) {}

  // A key refers to an entry of a container that will be put in order, and is not yet.
  struct comes_later {};
  // Called for each container before the first reorder().
  void expect(const keyed_container& which, address value);

  // A container in the value at an address. Returns why it cannot be put in order; "": it was. Throws comes_later; then
  // nothing has happened.
  [[nodiscard]] std::string reorder(const keyed_container& which, address value);

  [[nodiscard]] bool empty() const { return patches_.empty() && slots_.empty(); }
  // Changes a copy of what is stored from an address on.
  void apply(address from, std::span<std::byte> copy) const;
  // The same, but every entry stays where it was: only what is inside of them changes.
  void apply_inside(address from, std::span<std::byte> copy) const;
  // Where the byte is after that.
  [[nodiscard]] address entry_at(address at) const;
  // The word there will be another one.
  void put_word(address at, std::uint64_t word) { put(at, std::as_bytes(std::span(&word, 1))); }

  // What keys consist of, one part after the other. The order, and the hash, of pointers depend on addresses.
  struct key_part {
    enum class kind { pointer, with_sign, without_sign, floating, text_of_ours, standard_text } is;
    std::uint64_t offset, size;  // in the entry
    std::string type = {};       // of a pointer
  };
  // Of an entry of a container's array. Returns false if its key has something else in it.
  [[nodiscard]] static bool parts_of_entry(const type_field& entries, bool is_set, std::vector<key_part>& to);
  // Of two entries: negative, 0 or positive.
  [[nodiscard]] int compare(const std::vector<key_part>& parts, address one, address other) const;

 private:
  [[nodiscard]] static bool add_parts(const type& of, std::uint64_t at, std::vector<key_part>& to);
  [[nodiscard]] static bool add_part(const type_field& f, std::uint64_t at, std::vector<key_part>& to);
  [[nodiscard]] static std::uint64_t without_sign(address at, std::uint64_t size);
  [[nodiscard]] static std::int64_t with_sign(address at, std::uint64_t size);
  [[nodiscard]] static double floating(address at, std::uint64_t size);
  [[nodiscard]] std::uint64_t hash_of(const std::vector<key_part>& parts, address entry, std::uint64_t seed) const;

  // `value`: the container. They return what reorder() does.
  [[nodiscard]] std::string reorder_entries(const keyed_container& which, address value);
  [[nodiscard]] std::string reorder_hash_table(const type& of, address value, bool is_set);
  [[nodiscard]] std::string reorder_tree(const type& of, address value, bool is_set);
  [[nodiscard]] std::string reorder_standard_tree(const type& of, address value, bool is_set);
  [[nodiscard]] std::string reorder_standard_table(const type& of, address value, bool is_set);
  [[nodiscard]] address set_separators(address node, const std::unordered_map<address, address>& firsts,
                                       const std::vector<key_part>& parts);

  // Of the object that starts there, if its type's name begins like this.
  [[nodiscard]] const type* type_at(address object, std::string_view prefix) const;
  void put(address at, std::span<const std::byte> bytes) { patches_[at].assign(bytes.begin(), bytes.end()); }
  // The entry's bytes will be at `to`.
  void move_entry(address entry, std::uint64_t size, address to);

  const database_set& store_;
  // Where what a key refers to will be.
  [[nodiscard]] address target_of(const key_part& key, address at) const;
  // Of an entry of a weak_map: the address that its key will hide.
  [[nodiscard]] std::uint64_t hidden_key(std::uint64_t was);
  void require_no_waiting(address to) const;
  template <class F>
  void for_each_array(const keyed_container& which, address value, F&& f) const;

  const std::function<address(address, std::string_view)> moved_;
  const std::function<address(address)> weakly_;
  std::uint64_t ended_ = 0;             // keys of weak maps that have ended
  std::map<address, address> waiting_;  // arrays of entries, and their ends
  std::map<address, std::vector<std::byte>> patches_;
  struct moved_entry {
    std::uint64_t size;
    address to;
  };
  std::map<address, moved_entry> entries_;
  // What is in the slot of an entry then: the bytes that were at `source`, with the patches of those; 0: zeros. An entry may
  // have a container in it that was patched, and takes the patches with it.
  struct filled_slot {
    std::uint64_t size;
    address source;
  };
  std::map<address, filled_slot> slots_;
};

}  // namespace tenure::rewriting
