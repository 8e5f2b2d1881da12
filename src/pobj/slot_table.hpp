// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds the object that has its image in a slot. Used slots have at least 16 bytes, so no two of them begin in the same
// 16 bytes of the store [pobj.table.granule]. An array with a word for each 16 bytes finds the object in one step. A
// tree of bits says which words are in use, so that a pointer into the middle of a large object finds its slot in a few
// steps. The store's lock guards it.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <utility>
#include <vector>

#include "pobj/bit_tree.hpp"
#include "pobj/object.hpp"

namespace tenure::pobj {

class slot_table {
 public:
  explicit slot_table(std::pmr::memory_resource* in) : chunks_(in), used_(in), in_(in) {}

  // Throws only if the place was empty before. Then nothing has changed.
  void set(position slot, object o) {
    const std::size_t n = slot / chunk_bytes;
    if (n >= chunks_.size()) chunks_.resize(n + 1, chunk(in_));
    if (chunks_[n].empty()) {
      used_.reserve((n + 1) * (chunk_bytes / granule));
      chunks_[n].resize(chunk_bytes / granule);
    }
    entry& e = chunks_[n][slot % chunk_bytes / granule];
    count_ += e == 0 ? 1 : 0;
    e = hidden(o);
    used_.set(slot / granule);
  }
  void erase(position slot) {
    const std::size_t n = slot / chunk_bytes;
    if (n >= chunks_.size() || chunks_[n].empty()) return;
    entry& e = chunks_[n][slot % chunk_bytes / granule];
    count_ -= e == 0 ? 0 : 1;
    e = 0;
    used_.reset(slot / granule);
  }
  // The object whose slot begins exactly there.
  [[nodiscard]] object object_at(position slot) const {
    const std::size_t n = slot / chunk_bytes;
    if (n >= chunks_.size() || chunks_[n].empty()) return {};
    const object o = shown(chunks_[n][slot % chunk_bytes / granule]);
    return o && o.header().slot == slot ? o : object{};
  }
  // The object with the last slot that begins at or before `at`.
  [[nodiscard]] object find_last_object(position at) const {
    std::uint64_t g = used_.find_last(at / granule);
    if (g == bit_tree::none) return {};
    object o = in_granule(g);
    // The slot in the granule of `at` may begin behind `at`.
    if (o.header().slot <= at) return o;
    g = g == 0 ? bit_tree::none : used_.find_last(g - 1);
    return g == bit_tree::none ? object{} : in_granule(g);
  }
  // Erases the slots of [begin, end), and calls f(object) for each. No slot reaches into the range from outside.
  template <class F>
  void clear(position begin, position end, F&& f) {
    // A slot in the last 8 bytes would reach beyond the end. So a slot that begins in that granule belongs to the next
    // range.
    for (position g = begin / granule * granule; g < end / granule * granule; g += granule) {
      const std::size_t n = g / chunk_bytes;
      if (n >= chunks_.size()) return;
      if (chunks_[n].empty()) continue;
      entry& e = chunks_[n][g % chunk_bytes / granule];
      if (e == 0) continue;
      --count_;
      used_.reset(g / granule);
      f(shown(std::exchange(e, 0)));
    }
  }
  [[nodiscard]] std::size_t size() const { return count_; }
  // Calls f in the order of the slots. f may erase.
  template <class F>
  void for_each(F&& call) const {
    for (std::size_t n = 0; n < chunks_.size(); ++n)
      for (std::size_t g = 0; g < chunks_[n].size(); ++g)
        if (const object o = shown(chunks_[n][g])) call(o);
  }

 private:
  // Inverted, so that no garbage collector takes them for pointers to objects that it could otherwise free.
  using entry = std::uint64_t;
  using chunk = std::pmr::vector<entry>;
  static constexpr std::uint64_t granule = 16, chunk_bytes = std::uint64_t{1} << 20;

  static entry hidden(object o) { return ~static_cast<entry>(o.address()); }
  static object shown(entry e) { return {e == 0 ? nullptr : reinterpret_cast<std::byte*>(~e)}; }
  [[nodiscard]] object in_granule(std::uint64_t g) const {
    return shown(chunks_[g / (chunk_bytes / granule)][g % (chunk_bytes / granule)]);
  }

  std::pmr::vector<chunk> chunks_;
  bit_tree used_;  // granules
  std::pmr::memory_resource* in_;
  std::size_t count_ = 0;
};

}  // namespace tenure::pobj
