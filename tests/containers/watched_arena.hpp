// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for containers of which every change must be announced (tenure/barriers.hpp): it is compared before and after
// each operation. What an operation has allocated itself may change unannounced. Given back memory is cleared and used
// again only after the operation. For one thread.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <tenure/containers/detail/hash_group.hpp>
#include <tenure/containers/detail/tree_nodes.hpp>

#include "regions/announced_stores.hpp"

namespace tenure::testing {

enum class arena_kind { elements, leaf, inner, groups };
template <class T>
inline constexpr arena_kind kind_in_arena = arena_kind::elements;
template <class E>
inline constexpr arena_kind kind_in_arena<detail::tree_leaf<E>> = arena_kind::leaf;
template <class K>
inline constexpr arena_kind kind_in_arena<detail::tree_inner<K>> = arena_kind::inner;
template <class E>
inline constexpr arena_kind kind_in_arena<detail::hash_group<E>> = arena_kind::groups;

class watched_arena final : public rvm::store_listener {
 public:
  static constexpr std::size_t size = std::size_t{1} << 22;
  using kind = arena_kind;
  struct block {
    std::size_t bytes;
    kind is;
  };
  // What the current operation has allocated and given back, by kind.
  struct traffic {
    std::size_t allocated[4] = {}, freed[4] = {};
  };

  watched_arena() { watching_.begin(base(), size, *this); }
  ~watched_arena() { std::memset(base(), 0, used_); }
  watched_arena(const watched_arena&) = delete;
  watched_arena& operator=(const watched_arena&) = delete;

  void store_announced(std::byte* at, std::size_t length) noexcept override {
    const auto first = static_cast<std::size_t>(at - base());
    for (std::size_t i = first; i < first + length; ++i)
      if (i < compared_ && base()[i] != before_[i] && may_change_[i] == 0) ++late_;
    may_change(first, length);
    announced_ += length;
  }

  template <class T>
  T* allocate(std::size_t count) {
    if (refuse_after == 0) throw std::bad_alloc();
    if (refuse_after > 0) --refuse_after;
    const std::size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    std::size_t at = used_;
    if (auto& spare = spare_[bytes]; !spare.empty()) {
      at = spare.back();
      spare.pop_back();
    } else {
      used_ += bytes;
      if (used_ > size) throw std::bad_alloc();
    }
    may_change(at, bytes);
    blocks_[at] = {bytes, kind_in_arena<T>};
    ++now.allocated[static_cast<int>(kind_in_arena<T>)];
    return reinterpret_cast<T*>(base() + at);
  }
  void deallocate(const void* first) noexcept {
    const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(first) - base());
    const auto found = blocks_.find(at);
    if (found == blocks_.end()) {
      ADD_FAILURE() << "given back twice, or never given out";
      return;
    }
    ++now.freed[static_cast<int>(found->second.is)];
    freed_.emplace_back(at, found->second.bytes);
    blocks_.erase(found);
  }

  // Runs the operation, and reports changed bytes that it has not announced, or only after it had changed them.
  template <class Operation>
  void check(const std::string& what, Operation operation) {
    compared_ = used_;
    now = {};
    late_ = 0;
    operation();
    EXPECT_EQ(late_, 0U) << what << ": bytes were announced after they had changed";
    compare(what);
    for (const auto& [at, bytes] : freed_) {
      std::memset(base() + at, 0, bytes);
      may_change(at, bytes);
      spare_[bytes].push_back(at);
    }
    freed_.clear();
    compared_ = 0;
    for (const auto& [at, bytes] : changeable_) {
      std::memcpy(before_.data() + at, base() + at, bytes);
      std::memset(may_change_.data() + at, 0, bytes);
    }
    changeable_.clear();
  }

  [[nodiscard]] std::size_t live_blocks() const { return blocks_.size(); }
  [[nodiscard]] std::size_t announced() const { return announced_; }

  traffic now;
  long refuse_after = -1;  // allocations; below 0: never

 private:
  static std::byte* base() noexcept {
    alignas(4096) static std::byte memory[size];
    return memory;
  }
  void may_change(std::size_t at, std::size_t bytes) {
    std::memset(may_change_.data() + at, 1, bytes);
    changeable_.emplace_back(at, bytes);
  }
  void compare(const std::string& what) const {
    for (std::size_t page = 0; page < compared_; page += 4096) {
      const std::size_t end = std::min(page + 4096, compared_);
      if (std::memcmp(base() + page, before_.data() + page, end - page) == 0) continue;
      for (std::size_t i = page; i < end; ++i) {
        if (base()[i] == before_[i] || may_change_[i] != 0) continue;
        ADD_FAILURE() << what << ": byte " << i % 8 << " of the word at " << i / 8 * 8 << " was changed, not announced";
        return;
      }
    }
  }

  rvm::announced_range watching_;
  std::vector<std::byte> before_ = std::vector<std::byte>(base(), base() + size);  // the memory before the operation
  std::vector<unsigned char> may_change_ = std::vector<unsigned char>(size);
  std::size_t compared_ = 0, used_ = 0, late_ = 0, announced_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> changeable_;
  std::map<std::size_t, block> blocks_;
  std::map<std::size_t, std::vector<std::size_t>> spare_;
  std::vector<std::pair<std::size_t, std::size_t>> freed_;
};

// The memory policy: the arena of the test that runs.
struct arena_memory {
  static inline watched_arena* arena = nullptr;

  template <class T>
  [[nodiscard]] static T* allocate(std::size_t count, const void*) {
    return arena->allocate<T>(count);
  }
  template <class T>
  static void deallocate(T* first, std::size_t) noexcept {
    arena->deallocate(static_cast<const void*>(first));
  }
};

}  // namespace tenure::testing
