// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// pobj, as in the paper: the list is made in one transaction, each node persistent from its allocation; saving updates all
// of them, going from node to node, and commits.
#include <tenure/pobj.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "list/contender.hpp"

namespace tenure::bench::list {
namespace {

node* list_head;

void require(int code) {
  if (code != POBJ_OK) throw std::runtime_error(pobj_error());
}

class pobj_list : public contender {
 public:
  using contender::contender;

  std::string setting() const override { return "one transaction, recursive update"; }
  void prepare(std::uint64_t) override { open(); }
  void build(std::uint64_t nodes) override {
    static constexpr std::size_t references[] = {offsetof(node, next), POBJ_END};
    const pobj_type* const type = pobj_type_define("node", sizeof(node), references, nullptr);
    require(pobj_start());
    for (std::uint64_t i = nodes; i-- > 0;) {
      auto* const added = static_cast<node*>(pobj_malloc(sizeof(node)));
      if (added == nullptr) throw std::runtime_error(pobj_error());
      require(pobj_set_type(added, type));
      *added = {static_cast<std::int64_t>(i), list_head};
      list_head = added;
    }
  }
  void save(std::uint64_t) override {
    require(pobj_update_recursive(list_head, 0));
    require(pobj_static_update_ref(&list_head));
    require(pobj_end());
  }
  std::uint64_t open_and_walk() override {
    open();
    return walk(list_head);
  }
  void before_updates() override {
    for (node* at = list_head; at != nullptr; at = at->next) nodes_.push_back(at);
  }
  void update(std::uint64_t index, std::int64_t value) override {
    node* const at = nodes_[index];
    at->value = value;
    require(pobj_update_range(at, &at->value, sizeof at->value));
  }
  void close() override { require(pobj_close()); }

 private:
  void open() const {
    const std::string path = file("pobj");
    pobj_options how{};
    how.path = path.c_str();
    static constexpr std::size_t references[] = {0, POBJ_END};
    require(pobj_static_named("list", &list_head, sizeof(list_head), references));
    require(pobj_init_with(&how));
  }
  std::vector<node*> nodes_;
};

}  // namespace

std::unique_ptr<contender> make_pobj(const std::filesystem::path& directory) {
  return std::make_unique<pobj_list>(directory);
}

}  // namespace tenure::bench::list
