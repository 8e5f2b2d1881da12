// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The object heap: nodes are made like any others, outside of a transaction; the one that stores the head in a root saves
// them all, because they can be reached from there.
#include <vector>

#include <tenure/tenure.hpp>

#include "list/contender.hpp"

namespace tenure::bench::list {

struct list_root {
  node* head = nullptr;
};

namespace {

class heap_list : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return "one transaction that makes the list reachable"; }
  void prepare(std::uint64_t) override {
    open();
    root_ = &store_->root<list_root>("list");
  }
  void build(std::uint64_t nodes) override {
    for (std::uint64_t i = nodes; i-- > 0;) {
      auto* const added = store_->make<node>();
      added->value = static_cast<std::int64_t>(i);
      added->next = head_;
      head_ = added;
    }
  }
  void save(std::uint64_t) override {
    store_->transact([&] { root_->head = head_; });
  }
  std::uint64_t open_and_walk() override {
    open();
    root_ = &store_->root<list_root>("list");
    std::uint64_t sum = 0;
    store_->read([&] { sum = walk(root_->head); });
    return sum;
  }
  void before_updates() override {
    for (node* at = root_->head; at != nullptr; at = at->next) nodes_.push_back(at);
  }
  void update(std::uint64_t index, std::int64_t value) override {
    store_->transact([&] { nodes_[index]->value = value; });
  }
  void close() override { store_.reset(); }

 private:
  void open() { store_ = std::make_unique<tenure::store>(file("store")); }

  std::unique_ptr<tenure::store> store_;
  list_root* root_ = nullptr;
  node* head_ = nullptr;
  std::vector<node*> nodes_;
};

}  // namespace

std::unique_ptr<contender> make_heap(const std::filesystem::path& directory) {
  return std::make_unique<heap_list>(directory);
}

}  // namespace tenure::bench::list
