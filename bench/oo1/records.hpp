// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// OO1 over records, as a contender: a part is one record, found by its id, that holds its connections and the ids of the
// parts that lead to it. A system supplies, within a transaction,
//   read(id, f)      f(std::string_view) with the record; throws if there is none
//   write(id, bytes), erase(id)
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "oo1/contender.hpp"

namespace tenure::bench::oo1 {

// As stored; the ids of the parts that lead here follow.
struct part_record {
  struct connection {
    std::int32_t to, length;
    type_name type;
  };
  std::int32_t x, y, build;
  type_name type;
  std::array<connection, connections_per_part> out;
};

class record_contender : public contender {
 public:
  using contender::contender;

  void create() override {
    create_store();
    std::vector<std::vector<std::int32_t>> incoming(static_cast<std::size_t>(parts_) + 1);
    for (int id = 1; id <= parts_; ++id)
      for (const auto& out : plan_part(id, parts_).out) incoming[static_cast<std::size_t>(out.to)].push_back(id);
    begin();
    for (int id = 1; id <= parts_; ++id) {
      write(id, encode(planned_record(id, parts_), incoming[static_cast<std::size_t>(id)]));
      if (id % 50'000 != 0) continue;
      commit();
      begin();
    }
    commit();
  }

  answer look_up(std::span<const int> ids) override {
    answer all;
    for (const int id : ids) all += seen(fetch(id));
    return all;
  }
  answer traverse(int from, int percent) override { return visit(from, hops, percent); }
  answer traverse_reverse(int from) override { return visit_reverse(from, hops); }

  // A part that several new ones lead to is written once.
  void insert(int first, int count) override {
    std::map<int, std::vector<std::int32_t>> added;
    for (int id = first; id < first + count; ++id) {
      const part_record one = planned_record(id, parts_ + count);
      write(id, encode(one, {}));
      for (const auto& out : one.out) added[out.to].push_back(id);
    }
    for (const auto& target : added)
      change_incoming(target.first,
                      [&](auto& all) { all.insert(all.end(), target.second.begin(), target.second.end()); });
  }
  void remove(int first, int count) override {
    std::set<int> targets;
    for (int id = first; id < first + count; ++id) {
      for (const auto& out : fetch(id).out)
        if (out.to < first) targets.insert(out.to);
      erase(id);
    }
    for (const int id : targets)
      change_incoming(id, [&](auto& all) {
        std::erase_if(all, [&](std::int32_t from) { return from >= first && from < first + count; });
      });
  }
  answer sum() override {
    answer all;
    for (int id = 1; id <= parts_; ++id) {
      const part_record one = fetch(id);
      all += {1, static_cast<std::uint64_t>(one.x + one.y), 0};
    }
    return all;
  }

 protected:
  virtual void create_store() = 0;
  struct reader {
    virtual void operator()(std::string_view record) = 0;

   protected:
    ~reader() = default;
  };
  virtual void read(int id, reader& with) = 0;
  virtual void write(int id, std::string_view record) = 0;
  virtual void erase(int id) = 0;

 private:
  static part_record planned_record(int id, int parts) {
    const planned_part plan = plan_part(id, parts);
    part_record one = {};
    one.x = plan.x;
    one.y = plan.y;
    one.build = plan.build;
    one.type = part_type(plan.type);
    for (std::size_t i = 0; i < plan.out.size(); ++i)
      one.out[i] = {plan.out[i].to, plan.out[i].length, connection_type(plan.out[i].type)};
    return one;
  }
  static std::string encode(const part_record& one, const std::vector<std::int32_t>& incoming) {
    std::string bytes(sizeof one + incoming.size() * sizeof(std::int32_t), '\0');
    std::memcpy(bytes.data(), &one, sizeof one);
    if (!incoming.empty())
      std::memcpy(bytes.data() + sizeof one, incoming.data(), incoming.size() * sizeof(std::int32_t));
    return bytes;
  }
  static part_record decode(std::string_view bytes) {
    part_record one;
    if (bytes.size() < sizeof one) throw std::runtime_error("a record is too short");
    std::memcpy(&one, bytes.data(), sizeof one);
    return one;
  }
  static std::vector<std::int32_t> decode_incoming(std::string_view bytes) {
    std::vector<std::int32_t> all((bytes.size() - sizeof(part_record)) / sizeof(std::int32_t));
    if (!all.empty()) std::memcpy(all.data(), bytes.data() + sizeof(part_record), all.size() * sizeof(std::int32_t));
    return all;
  }
  template <class F>
  void with_record(int id, F f) {
    struct calling final : reader {
      explicit calling(F& to) : f_(to) {}
      void operator()(std::string_view record) override { f_(record); }
      F& f_;
    } with{f};
    read(id, with);
  }
  part_record fetch(int id) {
    part_record one;
    with_record(id, [&](std::string_view bytes) { one = decode(bytes); });
    return one;
  }
  template <class F>
  void change_incoming(int id, F&& change) {
    part_record one;
    std::vector<std::int32_t> incoming;
    with_record(id, [&](std::string_view bytes) {
      one = decode(bytes);
      incoming = decode_incoming(bytes);
    });
    change(incoming);
    write(id, encode(one, incoming));
  }

  static answer seen(const part_record& one) {
    null_procedure(one.x, one.y, one.type);
    return {1, checksum_of(one.build, one.type), 0};
  }
  answer visit(int id, int hops_left, int percent) {
    std::string bytes;  // of an updated record
    part_record one;
    with_record(id, [&](std::string_view stored) {
      one = decode(stored);
      if (percent != 0 && is_updated(one.build, percent)) bytes = stored;
    });
    answer all = seen(one);
    if (!bytes.empty()) {
      ++one.x;
      ++one.y;
      std::memcpy(bytes.data(), &one, sizeof one);
      write(id, bytes);
      all.updated = 1;
    }
    if (hops_left == 0) return all;
    for (const auto& out : one.out) all += visit(out.to, hops_left - 1, percent);
    return all;
  }
  answer visit_reverse(int id, int hops_left) {
    part_record one;
    std::vector<std::int32_t> incoming;
    with_record(id, [&](std::string_view bytes) {
      one = decode(bytes);
      if (hops_left > 0) incoming = decode_incoming(bytes);
    });
    answer all = seen(one);
    for (const int from : incoming) all += visit_reverse(from, hops_left - 1);
    return all;
  }
};

}  // namespace tenure::bench::oo1
