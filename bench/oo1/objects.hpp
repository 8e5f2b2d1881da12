// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// OO1 over objects, once for all worlds (worlds/plain_world.hpp says what a world is), as a contender.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "oo1/contender.hpp"

namespace tenure::bench::oo1 {

template <class W>
struct schema {
  template <class T>
  using ptr = typename W::template ptr<T>;
  template <class T>
  using field = typename W::template field<T>;

  struct part;
  struct connection {
    field<ptr<part>> from{}, to{};
    field<type_name> type{};
    field<int> length{};
  };
  struct part {
    field<int> id{};
    field<type_name> type{};
    field<int> x{}, y{};
    field<int> build{};
    std::array<field<ptr<connection>>, connections_per_part> to{};
    typename W::template vector<ptr<connection>> from;
  };
  struct database {
    typename W::template hash_map<int, ptr<part>> parts;
  };
};

enum class creation_order { by_id, shuffled };

template <class W, creation_order Order = creation_order::by_id>
class object_contender : public contender {
  using part = typename schema<W>::part;
  using connection = typename schema<W>::connection;
  using part_ptr = typename W::template ptr<part>;
  using connection_ptr = typename W::template ptr<connection>;
  using database = typename schema<W>::database;
  static constexpr bool evicts = requires { W::evicts; };

 public:
  using contender::contender;
  ~object_contender() override { W::close(); }

  std::string setting() const override {
    return W::setting() + (Order == creation_order::shuffled ? ", made in random order" : "");
  }
  bool persistent() const override { return W::persistent; }

  void create() override {
    if constexpr (requires { W::template make_root<database>(directory_); })
      W::template make_root<database>(directory_);
    W::create(directory_, (std::uint64_t{32} << 20) + static_cast<std::uint64_t>(parts_) * 1600);
    W::begin();
    find_root();
    std::vector<int> ids(static_cast<std::size_t>(parts_));
    std::iota(ids.begin(), ids.end(), 1);
    if constexpr (Order == creation_order::shuffled) shuffle(ids);
    build(ids);
    W::commit();
  }
  void open() override {
    W::open(directory_);
    W::begin();
    find_root();
    W::commit();
  }
  void close() override { W::close(); }
  void begin() override {
    W::begin();
    if constexpr (evicts) find_root();
  }
  void commit() override { W::commit(); }
  std::optional<commit_phases> commit_in_phases() override {
    if constexpr (requires { W::commit_in_phases(); }) return W::commit_in_phases();
    return contender::commit_in_phases();
  }
  breakdown_counts breakdown() const override { return W::breakdown(); }

  answer look_up(std::span<const int> ids) override {
    answer all;
    for (const int id : ids) all += seen(*find(id));
    return all;
  }
  answer traverse(int from, int percent) override {
    return percent == 0 ? visit<false>(*find(from), hops, 0) : visit<true>(*find(from), hops, percent);
  }
  answer traverse_reverse(int from) override { return visit_reverse(*find(from), hops); }
  void insert(int first, int count) override {
    std::vector<int> ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), first);
    for (const int id : ids) make_part(id, parts_ + count);
    for (const int id : ids) connect(id, parts_ + count);
  }
  void remove(int first, int count) override {
    for (int id = first; id < first + count; ++id)
      for (const auto& to : find(id)->to) {
        const connection_ptr one = to;
        take_one(change(*one->to).from, one);
        W::destroy(one);
      }
    for (int id = first; id < first + count; ++id) {
      const part_ptr gone = find(id);
      W::erase(in_->parts, id, gone);
      W::destroy(gone);
    }
  }
  answer sum() override {
    answer all;
    for (int id = 1; id <= parts_; ++id) {
      if constexpr (evicts)
        if (id % 10'000 == 0) checkpoint();
      const part_ptr one = find(id);
      all += {1, static_cast<std::uint64_t>(one->x + one->y), 0};
    }
    return all;
  }

 private:
  static void shuffle(std::vector<int>& ids) {
    random_numbers random{1};
    for (std::size_t i = ids.size(); i > 1; --i)
      std::swap(ids[i - 1], ids[static_cast<std::size_t>(random.up_to(static_cast<int>(i)) - 1)]);
  }
  part_ptr find(int id) const { return *W::find(in_->parts, id); }
  void find_root() { in_ = &W::template root<database>(); }
  void checkpoint() {
    W::checkpoint();
    if constexpr (evicts) find_root();
  }
  // For worlds that must hear of it.
  template <class T>
  static T& change(const T& object) {
    if constexpr (requires { W::change(object); })
      return W::change(object);
    else
      return const_cast<T&>(object);
  }

  void build(const std::vector<int>& ids) {
    constexpr std::size_t at_once = 5000;  // no system must hold all in one transaction
    for (std::size_t i = 0; i < ids.size(); ++i) {
      make_part(ids[i], parts_);
      if (i % at_once == 0) checkpoint();
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      connect(ids[i], parts_);
      if (i % at_once == 0) checkpoint();
    }
  }
  void make_part(int id, int parts) {
    const planned_part plan = plan_part(id, parts);
    const part_ptr made = W::template make<part>();
    part& one = change(*made);
    one.id = id;
    one.type = part_type(plan.type);
    one.x = plan.x;
    one.y = plan.y;
    one.build = plan.build;
    W::insert(in_->parts, id, made);
  }
  void connect(int id, int parts) {
    const planned_part plan = plan_part(id, parts);
    const part_ptr from = find(id);
    for (std::size_t i = 0; i < plan.out.size(); ++i) {
      const part_ptr to = find(plan.out[i].to);
      const connection_ptr made = W::template make<connection>();
      connection& one = change(*made);
      one.from = from;
      one.to = to;
      one.type = connection_type(plan.out[i].type);
      one.length = plan.out[i].length;
      change(*from).to[i] = made;
      change(*to).from.push_back(made);
    }
  }
  template <class Bag>
  static void take_one(Bag& from, const connection_ptr& one) {
    for (std::size_t i = from.size(); i-- > 0;) {
      if (!(from[i] == one)) continue;
      const connection_ptr last = from[from.size() - 1];
      W::set(from, i, last);
      return from.pop_back();
    }
  }

  static answer seen(const part& one) {
    null_procedure(one.x, one.y, one.type);
    return {1, checksum_of(one.build, one.type), 0};
  }
  template <bool Updating>
  static answer visit(const part& one, int hops_left, int percent) {
    answer all = seen(one);
    if constexpr (Updating) {
      if (is_updated(one.build, percent)) {
        part& changed = change(one);
        changed.x = changed.x + 1;
        changed.y = changed.y + 1;
        all.updated = 1;
      }
    }
    if (hops_left == 0) return all;
    for (const auto& to : one.to) all += visit<Updating>(*to->to, hops_left - 1, percent);
    return all;
  }
  static answer visit_reverse(const part& one, int hops_left) {
    answer all = seen(one);
    if (hops_left == 0) return all;
    for (const auto& from : one.from) all += visit_reverse(*from->from, hops_left - 1);
    return all;
  }

  database* in_ = nullptr;  // of the open transaction, where objects may go when it ends
};

}  // namespace tenure::bench::oo1
