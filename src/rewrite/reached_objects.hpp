// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The objects of a closed store to which roots lead, in the order in which they will be written.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <tenure/rewrite.hpp>

#include "objects/database_set.hpp"
#include "objects/references.hpp"
#include "os/scratch_memory.hpp"
#include "rewrite/access_order.hpp"
#include "rewrite/forwarding_table.hpp"

namespace tenure::rewriting {

class reached_objects {
 public:
  // Tables that are large get a file in the directory.
  reached_objects(const database_set& store, const std::string& scratch_directory,
                  const rvm::progress_callback& on_progress);

  // `used`: with object_order::by_access.
  void search(object_order order, const std::vector<used_parts>& used = {});

  // Where an object is, and will be. 0: it was not reached; `reached`: it has no place yet.
  static constexpr address reached = 1;
  [[nodiscard]] address& place_of(std::size_t database, address object) const { return tables_[database][object]; }
  [[nodiscard]] std::size_t count() const { return count_; }
  // The number of objects that were not reached. Descriptions of types do not count: they are made anew.
  [[nodiscard]] std::uint64_t left_out() const;
  // Calls f(number of the database, address) for each, in their order.
  template <class F>
  void for_each(F&& f) const {
    std::size_t in = 0;
    for (std::size_t n = 0; n < count_; ++n) {
      const address object = order_[n];
      in = number_of(object, in);
      f(in, object);
    }
  }
  // The number of the database of an address; npos: none. `guess`: is tried first.
  static constexpr std::size_t npos = ~std::size_t{0};
  [[nodiscard]] std::size_t number_of(address at, std::size_t guess) const {
    if (guess < store_.size() && store_[guess].map->contains(at)) return guess;
    for (std::size_t n = 0; n < store_.size(); ++n)
      if (store_[n].map->contains(at)) return n;
    return npos;
  }

 private:
  void follow_roots();
  // Of an object: what it refers to is reached.
  void follow(std::size_t database, address object);
  void follow(std::size_t database, address object, const heap::known_type& type, const heap::reference_field& r);
  void follow_hidden(std::size_t database, address object);
  void reach(std::size_t database, address object);
  void follow_in_order();
  void follow_by_depth();
  void order_by_address();
  void order_by_type();
  void order_by_access(const std::vector<used_parts>& used);
  template <class F>
  void for_each_by_address(F&& f) const;
  void show() const;

  const database_set& store_;
  const std::string scratch_directory_;
  const rvm::progress_callback& on_progress_;
  std::deque<forwarding_table> tables_;  // one for each database
  std::uint64_t all_ = 0;
  os::scratch_memory order_memory_, stack_memory_;
  address* order_ = nullptr;  // the objects, `count_` of them
  address* stack_ = nullptr;  // reached, but not followed; nullptr: these are at the end of order_
  std::size_t count_ = 0, stacked_ = 0, followed_ = 0;
};

}  // namespace tenure::rewriting
