// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Rewrites the references in new values, which have them as the old ones: each leads to where its object will be
// [heap.rewrite.references].
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "objects/database_set.hpp"
#include "rewrite/address_orders.hpp"
#include "rewrite/new_types.hpp"
#include "rewrite/reached_objects.hpp"

namespace tenure::rewriting {

class moved_references {
 public:
  // `types`: of the new databases, in the order of the store's.
  moved_references(const database_set& store, const reached_objects& reached, const std::deque<new_types>& types)
      : store_(store), reached_(reached), types_(types) {}

  // Where values are, and will be.
  struct values {
    const new_type& type;
    address object;  // the old one that they are made of, for messages; 0: none
    std::byte* at;
    std::uint64_t bytes;  // whole values
    address place;        // of the first
  };
  // Where else a reference may lead: to objects that a conversion has made. Returns 0 if it does not. `pointee`: the declared
  // type of what it refers to; empty if unknown.
  using elsewhere = std::function<address(address, std::string_view pointee)>;
  void rewrite(const values& of, const elsewhere& find);
  // Where an address in the store will be. 0: nowhere. `pointee`: what is said to be there.
  [[nodiscard]] address moved(address at, std::string_view pointee) { return moved(find(at), at, pointee); }
  // Entries that lie elsewhere before anything moves.
  void set_orders(const address_orders* orders) { orders_ = orders; }
  // Weak references to objects that were not reached.
  [[nodiscard]] std::uint64_t weak_cleared() const { return weak_cleared_; }

 private:
  struct target {
    std::size_t database = 0;
    address object = 0;  // 0: there is none
    std::uint32_t type = 0;
    std::uint64_t size = 0;
    address place = 0;
  };
  [[nodiscard]] target find(address at);
  // Where an address in the object, or behind its end, will be. 0: nowhere.
  [[nodiscard]] address moved(const target& in, address at, std::string_view pointee) const;
  [[nodiscard]] std::string_view declared_pointee(const values& of, const pointer_map::word& word);
  void rewrite_value(const values& all, std::byte* at, const elsewhere& other);
  void rewrite_cell(std::byte* cell, const elsewhere& other);
  [[nodiscard]] bool is_of_removed_container(const new_type& node, const target& to) const;
  [[noreturn]] void refuse(const values& all, std::uint64_t offset, address to, const target& base) const;

  const database_set& store_;
  const reached_objects& reached_;
  const std::deque<new_types>& types_;
  const address_orders* orders_ = nullptr;
  std::size_t near_ = 0;  // the database in which the last reference led
  std::uint64_t weak_cleared_ = 0;
  std::unordered_map<const pointer_map::word*, std::string> declared_;
};

}  // namespace tenure::rewriting
