// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/reached_objects.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <tenure/error.hpp>

#include "objects/address_lists.hpp"
#include "objects/object_text.hpp"
#include "objects/weak_cells.hpp"
#include "os/system_error.hpp"

namespace tenure::rewriting {

using namespace heap;

reached_objects::reached_objects(const database_set& store, const std::string& scratch_directory,
                                 const rvm::progress_callback& on_progress)
    : store_(store), scratch_directory_(scratch_directory), on_progress_(on_progress) {
  for (const auto& d : store) all_ += tables_.emplace_back(*d->map, scratch_directory).objects();
  order_memory_ = os::scratch_memory(scratch_directory, all_ * sizeof(address));
  order_ = reinterpret_cast<address*>(order_memory_.data());
}

void reached_objects::search(object_order order, const std::vector<used_parts>& used) {
  if (order != object_order::breadth_first) {
    stack_memory_ = os::scratch_memory(scratch_directory_, all_ * sizeof(address));
    stack_ = reinterpret_cast<address*>(stack_memory_.data());
  }
  follow_roots();
  switch (order) {
    case object_order::breadth_first: follow_in_order(); break;
    case object_order::depth_first: follow_by_depth(); break;
    case object_order::by_address: follow_by_depth(), order_by_address(); break;
    case object_order::by_type: follow_by_depth(), order_by_type(); break;
    case object_order::by_access: follow_by_depth(), order_by_access(used); break;
  }
  stack_memory_ = {};
}

void reached_objects::follow_roots() {
  for (std::size_t n = store_.size(); n-- > 0;) {
    const address table = store_[n].map->find_persistent(static_cast<address>(store_[n].header().roots));
    if (table == 0)
      throw error(errc::damaged, store_[n].file + ": its header refers to no object; `tenure verify` says more");
    reach(n, table);
  }
}

std::uint64_t reached_objects::left_out() const {
  std::uint64_t descriptions = 0;
  for (const auto& d : store_) {
    std::vector<address> found{static_cast<address>(d->header().types)};
    address_set seen(found.begin(), found.end());
    while (!found.empty()) {
      const object_facts facts = d->map->facts(found.back());
      found.pop_back();
      ++descriptions;
      for_each_reference(d->types->at(facts.type), facts, [&](const reference_field& r) {
        const address to = d->map->find_persistent(static_cast<address>(r.to));
        if (to != 0 && seen.insert(to).second) found.push_back(to);
      });
    }
  }
  return all_ - count_ - descriptions;
}

void reached_objects::reach(std::size_t database, address object) {
  address& place = place_of(database, object);
  if (place != 0) return;
  place = reached;
  if (stack_ != nullptr)
    stack_[stacked_++] = object;
  else
    order_[count_++] = object;
}

void reached_objects::follow_in_order() {
  std::size_t in = 0;
  for (std::size_t n = 0; n < count_; ++n) {
    in = number_of(order_[n], in);
    follow(in, order_[n]);
  }
}

void reached_objects::follow_by_depth() {
  std::size_t in = 0;
  while (stacked_ != 0) {
    const address object = stack_[--stacked_];
    order_[count_++] = object;
    in = number_of(object, in);
    const std::size_t before = stacked_;
    follow(in, object);
    std::reverse(stack_ + before, stack_ + stacked_);  // what it refers to first is next
  }
}

void reached_objects::follow(std::size_t database, address object) {
  if ((++followed_ & 0xffff) == 0) show();
  const database_state& in = store_[database];
  const object_facts facts = in.map->facts(object);
  const known_type& type = in.types->at(facts.type);
  if (type.cell == cell_kind::finalization) follow_hidden(database, object);
  for_each_reference(type, facts, [&](const reference_field& r) { follow(database, object, type, r); });
}

// A word of unknown layout cannot be rewritten if it may refer to an object.
void reached_objects::follow(std::size_t database, address object, const known_type& type, const reference_field& r) {
  const auto find = [&](address at) -> std::pair<std::size_t, address> {
    const std::size_t in = number_of(at, database);
    return {in, in != npos ? store_[in].map->find_persistent(at) : 0};
  };
  const auto [in, target] = find(static_cast<address>(r.to));
  if (r.may_be_end) {
    if (target == 0 && find(static_cast<address>(byte_before(r.to))).second == 0) return;
    throw error(errc::bad_type, object_text(store_, object) + field_text(store_, object, r.offset) +
                                    ": the layout of this part is unknown, and it has " +
                                    os::hexadecimal(in_memory(r.to)) + ", which may refer to " +
                                    object_text(store_, target != 0 ? target : object) +
                                    ": objects cannot be moved; describe the members of " + type.of->name +
                                    " (docs/types.md), and make its objects anew");
  }
  if (target != 0) return reach(in, target);
  if (r.is_ambiguous) return;  // it is stale, and will be null
  throw error(errc::damaged, object_text(store_, object) + field_text(store_, object, r.offset) + " refers to " +
                                 os::hexadecimal(in_memory(r.to)) +
                                 ", where no object is; `tenure verify` says what else is wrong");
}

// What a finalization queue watches is kept: a collection, not this, makes messages.
void reached_objects::follow_hidden(std::size_t database, address object) {
  const auto* const cell = reinterpret_cast<const tenure::detail::weak_cell*>(object);
  const auto target = reinterpret_cast<address>(tenure::detail::shown(cell->hidden));
  const std::size_t in = number_of(target, database);
  const address watched = in != npos ? store_[in].map->find_persistent(target) : 0;
  if (watched != 0) reach(in, watched);
}

template <class F>
void reached_objects::for_each_by_address(F&& f) const {
  for (std::size_t n = 0; n < store_.size(); ++n)
    store_[n].map->for_each_persistent(0, store_[n].header().blocks_end, [&](address object) {
      if (place_of(n, object) != 0) f(n, object);
    });
}

void reached_objects::order_by_address() {
  std::size_t n = 0;
  for_each_by_address([&](std::size_t, address object) { order_[n++] = object; });
}

void reached_objects::order_by_type() {
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> next;
  const auto type_of = [&](std::size_t in, address object) {
    return std::pair(in, store_[in].map->facts(object).type);
  };
  for_each_by_address([&](std::size_t in, address object) { ++next[type_of(in, object)]; });
  std::size_t first = 0;
  for (auto& [type, place] : next) first += std::exchange(place, first);
  for_each_by_address([&](std::size_t in, address object) { order_[next[type_of(in, object)]++] = object; });
}

// What was used comes first, in that order; within a part, and behind all of these, by address.
void reached_objects::order_by_access(const std::vector<used_parts>& used) {
  std::vector<std::size_t> next;  // the place of the next object of each rank
  std::vector<std::pair<std::uint64_t, std::vector<std::uint32_t>>> ranks(store_.size());  // unit, and ranks of parts
  for (const used_parts& each : used)
    for (std::size_t n = 0; n < store_.size(); ++n) {
      if (store_[n].header().database_id != each.database) continue;
      auto& [unit, of] = ranks[n];
      unit = each.unit;
      of.resize(store_[n].region.size() / unit + 1);
      for (const std::uint32_t part : each.order)
        if (part < of.size() && of[part] == 0) {
          next.push_back(0);
          of[part] = static_cast<std::uint32_t>(next.size());
        }
    }
  if (next.empty())
    throw error(errc::bad_option, store_.directory() +
                                      ": nothing of this store is in what was recorded; a program must "
                                      "read it as it is now");
  next.push_back(0);
  const auto rank_of = [&](std::size_t in, address object) -> std::size_t {
    const auto& [unit, of] = ranks[in];
    const std::uint32_t rank = of.empty() ? 0 : of[(object - store_[in].home) / unit];
    return rank == 0 ? next.size() - 1 : rank - 1;
  };
  for_each_by_address([&](std::size_t in, address object) { ++next[rank_of(in, object)]; });
  std::size_t first = 0;
  for (std::size_t& place : next) first += std::exchange(place, first);
  for_each_by_address([&](std::size_t in, address object) { order_[next[rank_of(in, object)]++] = object; });
}

void reached_objects::show() const {
  if (on_progress_) on_progress_({"searching", followed_, all_});
}

}  // namespace tenure::rewriting
