// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What a collection does between marking and sweeping: weak references to garbage are cleared. Then garbage that a finalization
// queue watches is put in the queue, with all that it refers to. So nothing weak leads to what is swept, and when a sweep is
// interrupted, nothing leads to what is left of the garbage [heap.weak.before-sweep].
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "collection/marker.hpp"
#include "objects/address_lists.hpp"
#include "objects/weak_cells.hpp"
#include "store/store_state.hpp"

namespace tenure {

class weak_collection {
 public:
  // `is_kept`: whether marking has found an object, or it is newer.
  weak_collection(store_state& of, heap::marker& marks, weak_references::predicate is_kept)
      : of_(of), marks_(marks), is_kept_(std::move(is_kept)) {}

  // In transactions of bounded size. `between` is called before each, and may throw. Marks what becomes a message.
  void run(const std::function<void()>& between);
  // Of a dry run: marks what would become a message, with all that it refers to, and changes nothing.
  void foresee(const std::function<void()>& between);
  // The objects whose weak references were cleared.
  [[nodiscard]] std::uint64_t cleared() const { return cleared_; }
  [[nodiscard]] std::uint64_t messages() const { return messages_; }

 private:
  using granules = heap::address_list<heap::address>;
  // Aborts it, and rethrows, if f() or the commit throws: otherwise nobody could write any more.
  template <class F>
  void in_transaction(F&& f);
  // Calls f(cell) for the cells that start in these granules.
  template <class F>
  void in_transactions(const granules& of, const std::function<void()>& between, F&& f);
  template <class F>
  void for_each_cell_in(std::span<const heap::address> some, F&& f) const;
  void clear(const heap::found_cell& cell);
  [[nodiscard]] bool is_there(const void* object) const;
  void clear_transient();
  void keep_garbage(const std::function<void()>& between);
  void post(const heap::found_cell& cell);
  // Whether only messages keep the object.
  [[nodiscard]] bool is_revived(const void* object) const {
    return marks_.is_revived(reinterpret_cast<heap::address>(object));
  }

  store_state& of_;
  heap::marker& marks_;
  const weak_references::predicate is_kept_;
  granules watched_;                           // entries of finalization queues with garbage
  heap::address_list<heap::address> garbage_;  // of these
  std::uint64_t cleared_ = 0, messages_ = 0;
};

}  // namespace tenure
