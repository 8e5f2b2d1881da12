// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "store_survey.hpp"

#include <algorithm>

#include <tenure/error.hpp>

#include "log/log_files.hpp"
#include "log_survey.hpp"
#include "log_text.hpp"
#include "object_values.hpp"
#include "objects/object_text.hpp"

namespace tenure::tools {

using namespace heap;

namespace {

store_options for_reading(const rvm::progress_callback& progress, rvm::copied_files copied) {
  store_options how;
  how.memory.copied = copied;
  how.mode = rvm::open_mode::read_only;
  how.memory.background = false;
  how.memory.on_progress = progress;
  return how;
}

// Calls f for each persistent object that can be looked into.
template <class F>
void for_each_object(const database_state& d, F&& f) {
  d.map->for_each_persistent(0, d.header().blocks_end, [&](address at) {
    if (const sound_object object = sound_at(d, at)) f(object);
  });
}

// From the bookkeeping alone: a hundredth of the database.
void count_blocks(const database_state& d, database_facts& facts) {
  std::uint64_t bookkeeping = 0;
  for (std::uint64_t b = 0; b < d.header().blocks_end; ++b) {
    if (!has_blocks(d.map->kind_of_zone(b / blocks_in_zone))) {
      b = (b / blocks_in_zone + 1) * blocks_in_zone - 1;
      continue;
    }
    const block_entry& e = d.map->entry(b);
    switch (e.kind) {
      case block_kind::small:
        facts.bytes += e.used * granule;
        ++facts.used_blocks;
        break;
      case block_kind::typed:
        for (std::size_t n = 0; n < pages_in_block; ++n) {
          const record_view r = d.map->record(b);
          facts.bytes += r.starts.count_in_page(n) * r.pages[n].stride();
        }
        ++facts.used_blocks;
        break;
      case block_kind::large:
        facts.bytes += e.span * block_size;
        facts.used_blocks += e.span;
        break;
      case block_kind::bookkeeping: ++bookkeeping; continue;
      default: continue;
    }
    facts.objects += d.map->starts(b).count();
  }
  const std::uint64_t all = facts.length / block_size;
  facts.free_blocks = all - std::min(all, facts.used_blocks + bookkeeping);
}

database_facts facts_of(const database_state& d) {
  database_facts facts;
  facts.name = d.name;
  facts.file = d.file;
  facts.id = hex_text(std::as_bytes(std::span(d.header().database_id)));
  facts.home = d.home;
  facts.reservation = d.reservation;
  facts.length = d.region.size();
  facts.roots = d.header().roots != stored_address::none ? d.root_table().count : 0;
  count_blocks(d, facts);
  for (std::uint32_t n = 1; n < d.types->count(); ++n)
    if (const known_type* const t = d.types->find(n)) {
      ++facts.types;
      if (t->of->is_conservative) ++facts.conservative_types;
    }
  if (facts.conservative_types != 0)
    for_each_object(d, [&](const sound_object& object) {
      if (object.type->of->is_conservative) ++facts.conservative_objects;
    });
  return facts;
}

}  // namespace

surveyed_store::surveyed_store(const std::string& directory, const rvm::progress_callback& progress,
                               rvm::copied_files copied) try
    : state_(std::make_unique<store_state>(directory, for_reading(progress, copied))) {
} catch (const error& e) {
  if (e.code() != errc::in_use) throw;
  throw error(errc::in_use, directory + ": the store is in use: " + e.what());
}

log_facts surveyed_store::log() const {
  log_facts facts;
  facts.path = state_->directory + "/log";
  const rvm::recovery_report& recovery = state_->memory->recovery();
  const auto log = rvm::log_files::open_unlocked(os::real_disk(), facts.path);
  const survey found = survey_log(os::real_disk(), facts.path, [&](const rvm::group_view& group, os::const_bytes) {
    for (const rvm::transaction_view& tx : group.transactions())
      facts.transactions += (tx.flags & rvm::record_last) != 0;
    return true;
  });
  facts.size = log->length();
  facts.used = found.tail - found.head;
  facts.recovery_needed = recovery.needed || log->status().clean == 0;
  if (state_->memory->in_doubt()) facts.in_doubt = state_->memory->in_doubt()->global_id;
  return facts;
}

std::vector<database_facts> surveyed_store::databases() const {
  std::vector<database_facts> all;
  for (const auto& d : *state_->databases) all.push_back(facts_of(*d));
  return all;
}

std::vector<const database_state*> surveyed_store::chosen(const std::string& database) const {
  std::vector<const database_state*> all;
  for (const auto& d : *state_->databases)
    if (database.empty() || d->name == database) all.push_back(d.get());
  if (all.empty()) throw error(errc::bad_option, state_->directory + ": has no database \"" + database + "\"");
  return all;
}

std::vector<root_facts> surveyed_store::roots(const std::string& database, bool with_sizes) const {
  std::vector<root_facts> all;
  for (const database_state* const d : chosen(database)) {
    if (d->header().roots == stored_address::none) continue;
    const root_table& table = d->root_table();
    for (std::uint64_t n = 0; n < table.count; ++n) {
      const root_entry& entry = table.entries[n];
      root_facts facts{d->name, std::string(entry.name.text, entry.name.length), stored_address_of(entry.object), {}, 0,
                       0};
      const sound_object object = find(facts.object);
      if (object) facts.type = object.type->of->name;
      if (object && with_sizes) {
        reachable_objects reachable(set());
        reachable.search_from(object.at);
        for (const address at : reachable.in_order())
          if (const sound_object found = find(reinterpret_cast<const void*>(at)))
            ++facts.reachable, facts.reachable_bytes += found.size;
      }
      all.push_back(std::move(facts));
    }
  }
  return all;
}

std::vector<type_facts> surveyed_store::types(const std::string& database) const {
  std::vector<type_facts> all;
  for (const database_state* const d : chosen(database)) {
    const std::size_t first = all.size();
    std::vector<std::size_t> place(d->types->count());
    for (std::uint32_t n = 1; n < d->types->count(); ++n)
      if (const known_type* const t = d->types->find(n)) {
        place[n] = all.size();
        all.push_back({d->name, n, t->of, 0, 0});
      }
    if (first == all.size()) continue;
    for_each_object(*d, [&](const sound_object& object) {
      type_facts& facts = all[place[object.type->index]];
      ++facts.objects;
      facts.bytes += object.size;
    });
  }
  return all;
}

// --- Reaching ------------------------------------------------------------------------------------------------------------

void reaching::begin_at(const sound_object& object, std::string root) {
  if (object && seen_.emplace(object.at, order_.size()).second) order_.push_back({object, 0, std::move(root), 0, 0});
}

template <class F>
void reaching::for_each_new(const reached_object& from, F&& f) const {
  for_each_reference(*from.object.type, from.object.facts(), [&](const reference_field& r) {
    const std::uint64_t stride = from.object.type->of->size;
    if (is_text_pointer(*from.object.type->of, r.offset % stride)) return;
    const sound_object to = in_.find(r.to);
    if (to && !seen_.contains(to.at)) f(to, r.offset);
  });
}

void reaching::go(std::optional<std::uint64_t> depth, const std::function<bool(const reached_object&)>& f) {
  for (std::size_t n = 0; n < order_.size(); ++n) {
    const reached_object object = order_[n];  // a copy: order_ grows
    if (!f(object)) return;
    if (depth && object.depth == *depth) {
      for_each_new(object, [&](const sound_object&, std::uint64_t) { ended_at_depth_ = true; });
      continue;
    }
    for_each_new(object, [&](const sound_object& to, std::uint64_t offset) {
      seen_.emplace(to.at, order_.size());
      order_.push_back({to, object.depth + 1, object.root, object.object.at, offset});
    });
  }
}

std::string reaching::way_to(const reached_object& object) const {
  constexpr std::size_t most_steps = 12;
  std::vector<std::string> steps;
  const reached_object* at = &object;
  while (at->from != 0) {
    steps.push_back(field_text(in_.set(), at->from, at->offset));
    at = &order_[seen_.at(at->from)];
  }
  std::ranges::reverse(steps);
  std::string way;
  for (std::size_t n = 0; n < steps.size(); ++n) {
    if (steps.size() > most_steps && n == most_steps / 2) {
      way += " ... (" + std::to_string(steps.size() - most_steps) + " more) ... ";
      n = steps.size() - most_steps / 2;
    }
    way += steps[n];
  }
  return way;
}

}  // namespace tenure::tools
