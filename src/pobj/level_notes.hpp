// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Notes about keys, at most one for each key and level of a transaction, in the order in which they were made. A level is
// known by the number of notes when it began. When it ends, its notes are those of the outer level without any work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "os/room_for_one.hpp"

namespace tenure::pobj {

template <class Key, class Note>
class level_notes {
 public:
  [[nodiscard]] std::size_t size() const { return all_.size(); }

  // The note about the key since there were `begin` notes, and whether it is a new one, which make() has made. If it throws,
  // nothing has changed.
  template <class F>
  std::pair<Note*, bool> note(Key key, std::size_t begin, F&& make) {
    const auto [at, is_first] = last_.try_emplace(key, none);
    if (at->second != none && at->second >= begin) return {&all_[at->second].what, false};
    try {
      os::reserve_one_more(all_);
      all_.push_back({key, at->second, std::forward<F>(make)()});
    } catch (...) {
      if (is_first) last_.erase(at);
      throw;
    }
    at->second = all_.size() - 1;
    return {&all_.back().what, true};
  }

  // Takes back all notes but the first `begin`, the last one first. Calls f(key, note, is_last) for each; `is_last`: no other
  // one of the key is taken back after it. If f returns true for such a one, it stays, as a note of the outer level.
  template <class F>
  void take_back(std::size_t begin, F&& f) noexcept {
    std::size_t kept = all_.size();  // those from here on stay
    for (std::size_t i = all_.size(); i-- > begin;) {
      entry& e = all_[i];
      const bool is_last = e.before == none || e.before < begin;
      if (f(e.key, e.what, is_last) && is_last) {
        if (--kept != i) all_[kept] = std::move(e);
        continue;
      }
      const auto at = last_.find(e.key);
      if (e.before == none)
        last_.erase(at);
      else
        at->second = e.before;
    }
    all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(begin), all_.begin() + static_cast<std::ptrdiff_t>(kept));
    for (std::size_t i = begin; i < all_.size(); ++i) last_.find(all_[i].key)->second = i;
  }
  // All of them, when there is no outer level.
  template <class F>
  void take_all_back(F&& f) noexcept {
    for (auto e = all_.rbegin(); e != all_.rend(); ++e) (void)f(e->key, e->what, e->before == none);
    all_.clear();
    last_.clear();
  }
  template <class F>
  void for_each(F&& f) const {
    for (const entry& e : all_) f(e.key, e.what);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  struct entry {
    Key key;
    std::size_t before;  // the key's note before this one
    Note what;
  };
  std::vector<entry> all_;
  std::unordered_map<Key, std::size_t> last_;  // each key's last note
};

}  // namespace tenure::pobj
