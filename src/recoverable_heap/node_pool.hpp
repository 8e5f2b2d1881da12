// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for the nodes of the lists of spans and free pages. What is reserved ahead cannot fail afterwards: transactions end
// without any memory [rvm.heap.no-memory].
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

namespace tenure::rvm {

class node_pool final : public std::pmr::memory_resource {
 public:
  // There can be so many nodes then, those that there are included.
  void reserve(std::size_t nodes) {
    while (chunks_.size() * in_chunk < nodes) add_chunk();
  }

 private:
  union node {
    node* next;
    alignas(std::max_align_t) std::byte bytes[48];  // those of a std::map from numbers to pointers
  };
  static constexpr std::size_t in_chunk = 256;

  void add_chunk() {
    chunks_.push_back(std::make_unique<std::array<node, in_chunk>>());
    for (node& each : *chunks_.back()) each.next = std::exchange(free_, &each);
  }
  void* do_allocate([[maybe_unused]] std::size_t bytes, std::size_t) override {
    assert(bytes <= sizeof(node));
    if (free_ == nullptr) add_chunk();
    return std::exchange(free_, free_->next);
  }
  void do_deallocate(void* at, std::size_t, std::size_t) override {
    auto* const given_back = static_cast<node*>(at);
    given_back->next = std::exchange(free_, given_back);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::vector<std::unique_ptr<std::array<node, in_chunk>>> chunks_;
  node* free_ = nullptr;
};

}  // namespace tenure::rvm
