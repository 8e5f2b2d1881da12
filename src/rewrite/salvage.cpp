// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/salvage.hpp"

#include <algorithm>

#include <tenure/error.hpp>
#include <tenure/store/weak_cell.hpp>

#include "objects/object_text.hpp"
#include "os/system_error.hpp"

namespace tenure::rewriting {

using namespace heap;

void salvage::run(const rvm::progress_callback& on_progress) {
  image_.find_damage(on_progress);
  for (const auto& d : store_) check_roots(*d);
  follow_all(on_progress);
  follow_moved_entries();
}

// --- Roots ----------------------------------------------------------------------------------------------------------------

// The table keeps those whose objects are there.
void salvage::check_roots(const database_state& in) {
  if (in.header().roots == stored_address::none) return;
  root_table& table = in.root_table();
  const sound_object roots = image_.find(static_cast<address>(in.header().roots));
  if (!roots || roots.at != static_cast<address>(in.header().roots) || roots.size < sizeof table)
    throw error(errc::damaged,
                in.file + ": cannot be repaired: its table of roots is lost; restore the store from a backup");
  reach(roots, {0, 0, "roots of " + in.name});
  if (const sound_object entries = image_.find(reinterpret_cast<address>(table.entries)))
    reach(entries, {0, 0, "roots of " + in.name});
  std::uint64_t kept = 0;
  for (std::uint64_t n = 0; n < table.count; ++n) {
    root_entry entry = table.entries[n];
    const address object = reinterpret_cast<address>(entry.object);
    const sound_object name = image_.find(reinterpret_cast<address>(entry.name.text)), to = image_.find(object);
    const bool has_name = name && name.at == reinterpret_cast<address>(entry.name.text) && entry.name.length != 0 &&
                          entry.name.length <= name.size;
    std::string text = has_name ? std::string(entry.name.text, entry.name.length) : std::string();
    if (!to || to.at != object) {
      found_({repair_finding::kind::lost_root,
              in.file + ": the root \"" + text + "\" is lost: it led to " + image_.text_of(object), 0});
      continue;
    }
    if (!has_name) {
      text = "recovered-" + std::to_string(n);
      const known_type* letters = nullptr;
      for (std::uint32_t t = 1; t < in.types->count() && letters == nullptr; ++t)
        if (const known_type* const known = in.types->find(t); known != nullptr && known->of->name == "char")
          letters = known;
      const address made = letters != nullptr ? image_.make(in, letters->index, text.size()) : 0;
      found_({repair_finding::kind::lost_root,
              in.file + ": the name of the root of " + object_text(store_, object) + " is lost; " +
                  (made != 0 ? "it is \"" + text + "\" now" : std::string("there is no room for another one")),
              object});
      if (made == 0) continue;
      std::memcpy(reinterpret_cast<void*>(made), text.data(), text.size());
      entry.name = {reinterpret_cast<const char*>(made), text.size()};
    }
    reach(to, {0, 0, "root " + text});
    table.entries[kept++] = entry;
  }
  for (std::uint64_t n = kept; n < table.count; ++n) table.entries[n] = {};
  table.count = kept;
}

// --- Search -----------------------------------------------------------------------------------------------------------------

void salvage::reach(const sound_object& object, step how) {
  if (reached_.emplace(object.at, std::move(how)).second) next_.push_back(object.at);
}

void salvage::follow_all(const rvm::progress_callback& on_progress) {
  while (!next_.empty() || !later_.empty()) {
    while (!next_.empty()) {
      const address object = next_.front();
      next_.pop_front();
      order_.push_back(object);
      if (on_progress && order_.size() % 0x10000 == 0)
        on_progress({"salvaging", order_.size(), order_.size() + next_.size()});
      follow(object);
    }
    // A container may have been reached meanwhile that says which elements are values.
    const auto known = std::partition(later_.begin(), later_.end(),
                                      [&](address array) { return containers_.live_in(array) == nullptr; });
    std::vector<address> now(known, later_.end());
    later_.erase(known, later_.end());
    if (now.empty()) now.swap(later_);
    for (const address array : now) {
      const auto* const live = containers_.live_in(array);
      follow_array(image_.find(array), live != nullptr ? *live : salvaged_containers::range{0, 0});
    }
  }
}

void salvage::follow(address at) {
  const sound_object object = image_.find(at);
  if (object.type->cell != cell_kind::none) check_cell(object);
  if (object.type->of->tolerates_stale)
    later_.push_back(at);
  else
    follow_array(object, {0, object.count()});
}

void salvage::follow_array(const sound_object& object, salvaged_containers::range live) {
  const type& of = *object.type->of;
  if (of.size == 0 || (containers_.places_in(of).empty() && !object.type->words->has_pointers())) return;
  for (std::uint64_t n = 0; n < object.count(); ++n) {
    const address element = object.at + n * of.size;
    if (n >= live.first && n < live.end)
      follow_element(object, element);
    else
      follow_words(object, element, false);
  }
}

void salvage::follow_element(const sound_object& object, address element) {
  for (const container_place& place : containers_.places_in(*object.type->of)) {
    if (!is_there(place, reinterpret_cast<const std::byte*>(element))) continue;
    const std::string what = containers_.mend(place, element + place.offset);
    if (!what.empty())
      found_({repair_finding::kind::container,
              place_of(object, element + place.offset) + ": the " + place.of->name + " " + what,
              element + place.offset});
  }
  follow_words(object, element, true);
}

void salvage::follow_words(const sound_object& object, address element, bool is_value) {
  const pointer_map& map = *object.type->words;
  if (!map.has_pointers()) return;
  const std::vector<pointer_map::word>& words = map.words();
  const std::vector<std::string>& pointees = containers_.pointees(*object.type->of, map);
  sound_object base;
  for (std::size_t n = 0; n < words.size(); ++n) {
    const pointer_map::word& w = words[n];
    const address at = element + w.offset;
    if (w.guards != 0 && !map.holds(w, reinterpret_cast<const std::byte*>(element))) continue;
    if (w.kind == field_kind::conservative) {
      for (address each = at; each + sizeof(address) <= at + w.length; each += sizeof(address))
        if (const sound_object to = image_.find(damaged_image::get(each))) reach(to, {object.at, each - object.at, {}});
      continue;
    }
    if (w.kind != field_kind::reference && w.kind != field_kind::derived) continue;
    const address was = damaged_image::get(at);
    if (w.kind == field_kind::derived) {
      if (is_value && was != 0 && (!base || was < base.at || was > base.at + base.size)) cut(object, at, was);
      continue;
    }
    base = was != 0 ? image_.find(was, pointees[n]) : sound_object{};
    if (was == 0) continue;
    if (base)
      reach(base, {object.at, at - object.at, {}});
    else if (is_value)
      cut(object, at, was);
  }
}

void salvage::check_cell(const sound_object& object) {
  auto* const cell = reinterpret_cast<tenure::detail::weak_cell*>(object.at);
  const auto to = reinterpret_cast<address>(tenure::detail::shown(cell->hidden));
  if (to == 0) return;
  if (const sound_object there = image_.find(to)) {
    // What a finalization queue watches is kept.
    if (object.type->cell == cell_kind::finalization) reach(there, {object.at, 0, {}});
    return;
  }
  cell->hidden = 0;
  found_({repair_finding::kind::cut_reference,
          place_of(object, object.at) + ": the weak reference to " + image_.text_of(to) + " was cleared", object.at});
}

void salvage::cut(const sound_object& object, address at, address was) {
  damaged_image::put(at, address{0});
  containers_.note_changed(at);
  found_({repair_finding::kind::cut_reference,
          place_of(object, at) + " referred to " + image_.text_of(was) + ", and is null now", at});
}

// References to entries that containers have moved in their nodes. What is in such an entry has followed it.
void salvage::follow_moved_entries() {
  const auto& moved = containers_.moved();
  if (moved.empty()) return;
  const auto entry_with = [&](address at) {
    auto found = moved.upper_bound(at);
    if (found == moved.begin()) return moved.end();
    --found;
    return at < found->first + found->second.size ? found : moved.end();
  };
  const auto is_inside = [&](address word, address target) {
    for (const auto& [from, entry] : moved)
      if (entry.to != 0 && word - entry.to < entry.size && target - entry.to < entry.size) return true;
    return false;
  };
  for (const address at : order_) {
    const sound_object object = image_.find(at);
    if (!object || object.type->of->size == 0 || !object.type->words->has_pointers()) continue;
    for_each_reference(*object.type, object.facts(), [&](const reference_field& r) {
      const auto to = static_cast<address>(r.to);
      const auto entry = entry_with(to);
      if (entry == moved.end() || to == object.at || r.may_be_end || is_inside(at + r.offset, to)) return;
      if (entry->second.to == 0)
        cut(object, at + r.offset, to);
      else
        damaged_image::put(at + r.offset, entry->second.to + (to - entry->first));
    });
  }
}

// --- Texts ------------------------------------------------------------------------------------------------------------------

std::string salvage::path_of(address object) const {
  constexpr std::size_t most_steps = 12;
  std::vector<std::string> steps;
  for (auto at = reached_.find(object); at != reached_.end(); at = reached_.find(at->second.from)) {
    const step& how = at->second;
    if (how.from == 0) {
      steps.push_back(how.root);
      break;
    }
    steps.push_back(field_text(store_, how.from, how.offset));
    if (steps.size() > most_steps) {
      steps.emplace_back("...");
      break;
    }
  }
  std::string text;
  for (auto each = steps.rbegin(); each != steps.rend(); ++each) text += (text.empty() ? "" : " -> ") + *each;
  return text;
}

std::string salvage::place_of(const sound_object& object, address at) const {
  const std::string path = path_of(object.at);
  return object_text(store_, object.at) + field_text(store_, object.at, at - object.at) +
         (path.empty() ? "" : " (" + path + ")");
}

}  // namespace tenure::rewriting
