// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds a name in a database's root table, which has no order. The index is built when it is first needed, and again
// after an abort that undid changes of the table.
//
// Several readers may search at the same time. The writer has the table for itself.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "log/invariant.hpp"
#include "objects/stored_types.hpp"

namespace tenure::heap {

class root_names {
 public:
  // nullptr: the name is not in the table.
  [[nodiscard]] root_entry* find(const root_table& in, std::string_view name) {
    const std::scoped_lock lock(mutex_);
    if (!known_) read(in);
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &in.entries[found->second];
  }
  // The table will get a new last entry. If memory is too short, nothing has changed.
  void adding(const root_table& to, std::string_view name) {
    const std::scoped_lock lock(mutex_);
    if (known_) places_.emplace(name, to.count);
    changed_ = true;
  }
  // The last entry of the table will be moved to the place of `gone`. Needs no memory.
  void removing(const root_table& from, const root_entry& gone) noexcept {
    const std::scoped_lock lock(mutex_);
    assert(&gone >= from.entries && &gone < from.entries + from.count);
    changed_ = true;
    if (!known_) return;
    const auto last = places_.find(text_of(from.entries[from.count - 1])), found = places_.find(text_of(gone));
    if (last != places_.end()) last->second = static_cast<std::uint64_t>(&gone - from.entries);
    if (found != places_.end()) places_.erase(found);  // a damaged table may have a name twice
  }
  // The open transaction has committed.
  void committed() { changed_ = false; }
  void aborted() {
    inner_aborted();
    changed_ = false;
  }
  // What the open transaction has changed was put back in part.
  void inner_aborted() {
    const std::scoped_lock lock(mutex_);
    if (changed_) known_ = false;
  }
  // Throws if an invariant does not hold. Not while another thread changes the table.
  void check(const root_table& in) const {
    const std::scoped_lock lock(mutex_);
    if (!known_) return;
    rvm::require_invariant(places_.size() == in.count, "the names of roots that are known are those of the table");
    for (std::uint64_t n = 0; n < in.count; ++n) {
      const auto found = places_.find(text_of(in.entries[n]));
      rvm::require_invariant(found != places_.end() && found->second == n, "the name of a root leads to its entry");
    }
  }

 private:
  // Finds views without making strings.
  struct hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view of) const noexcept { return std::hash<std::string_view>()(of); }
  };

  static std::string_view text_of(const root_entry& e) { return {e.name.text, e.name.length}; }
  void read(const root_table& in) {
    places_.clear();
    for (std::uint64_t n = 0; n < in.count; ++n) places_.emplace(text_of(in.entries[n]), n);
    known_ = true;
  }

  mutable std::mutex mutex_;
  bool known_ = false;
  bool changed_ = false;  // by the open transaction; the writer's
  std::unordered_map<std::string, std::uint64_t, hash, std::equal_to<>> places_;
};

}  // namespace tenure::heap
