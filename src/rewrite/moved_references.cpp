// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/moved_references.hpp"

#include <cstring>
#include <optional>
#include <string>

#include <tenure/error.hpp>

#include "objects/object_text.hpp"
#include "objects/weak_cells.hpp"
#include "os/system_error.hpp"
#include "types/pointee.hpp"

namespace tenure::rewriting {

using namespace heap;

namespace {

[[nodiscard]] address word_in(const std::byte* at) { return static_cast<address>(stored_address_in(at)); }
void put_word(std::byte* at, address value) { std::memcpy(at, &value, sizeof value); }

// Nodes of a standard container refer to it. If the field was removed that had it, they become garbage.
[[nodiscard]] bool is_node(std::string_view name) {
  return name.starts_with("std::_Rb_tree_node<") || name.starts_with("std::_List_node<") ||
         name.starts_with("std::__detail::_Hash_node<");
}

}  // namespace

bool moved_references::is_of_removed_container(const new_type& node, const target& to) const {
  return to.object != 0 && types_[to.database].at(to.type).how != nullptr && is_node(node.of->name);
}

moved_references::target moved_references::find(address at) {
  const std::size_t in = reached_.number_of(at, near_);
  if (in == reached_objects::npos) return {};
  near_ = in;
  const block_map& map = *store_[in].map;
  const address object = map.find_persistent(at);
  if (object == 0) return {};
  const object_facts facts = map.facts(object);
  return {in, object, facts.type, facts.size, reached_.place_of(in, object)};
}

address moved_references::moved(const target& in, address at, std::string_view pointee) const {
  if (in.object == 0 || at < in.object || at > in.object + in.size || in.place <= reached_objects::reached) return 0;
  const std::uint64_t offset = at - in.object;
  const types::value_conversion* const how = types_[in.database].at(in.type).how.get();
  if (how == nullptr) return in.place + offset;
  const std::uint64_t was = how->from->size, is = how->to->size;
  if (offset == in.size) return in.place + offset / was * is;  // behind the last one
  const auto* const value = reinterpret_cast<const std::byte*>(at - offset % was);
  const std::optional<std::uint64_t> inside = how->moved_offset(value, offset % was, pointee);
  return inside ? in.place + offset / was * is + *inside : 0;
}

void moved_references::rewrite(const values& of, const elsewhere& find) {
  if (of.type.cell != cell_kind::none) rewrite_cell(of.at, find);
  const pointer_map& words = *of.type.words;
  const std::uint64_t stride = of.type.of->size;
  if (stride == 0 || words.words().empty()) return;
  for (std::uint64_t at = 0; at + stride <= of.bytes; at += stride) rewrite_value(of, of.at + at, find);
}

void moved_references::rewrite_value(const values& all, std::byte* value, const elsewhere& other) {
  target base;  // of the last reference, which a derived pointer follows
  const std::vector<pointer_map::word>& words = all.type.words->words();
  const auto begin = reinterpret_cast<address>(all.at);
  for (std::size_t n = 0; n < words.size(); ++n) {
    const pointer_map::word& w = words[n];
    if (w.kind == field_kind::conservative || (w.guards != 0 && !all.type.words->holds(w, value))) continue;
    std::byte* const at = value + w.offset;
    if (w.kind == field_kind::transient) {
      std::memset(at, 0, w.length);
      continue;
    }
    address was = word_in(at);
    if (w.kind == field_kind::vtable) {
      // Zero: a slot of a container, or an element of an array, that holds no object.
      if (was != 0) put_word(at, all.type.vtable_words[n]);
      continue;
    }
    if (was == 0) {
      if (w.kind == field_kind::reference) base = {};
      continue;
    }
    if (was >= begin && was <= begin + all.bytes) {  // new values refer to themselves
      put_word(at, all.place + (was - begin));
      continue;
    }
    if (other)
      if (const address made = other(was, declared_pointee(all, w)); made != 0) {
        put_word(at, made);
        continue;
      }
    if (orders_ != nullptr) was = orders_->entry_at(was);
    if (w.kind == field_kind::reference) base = find(was);
    const bool is_converted = base.object != 0 && types_[base.database].at(base.type).how != nullptr;
    const address to = moved(base, was, is_converted ? declared_pointee(all, w) : std::string_view());
    if (to == 0 && !all.type.of->tolerates_stale && !is_of_removed_container(all.type, base))
      refuse(all, static_cast<std::uint64_t>(at - all.at), was, base);
    put_word(at, to);
  }
}

// A class that the program has not described is known by its name, too: a link to the head of a standard container does not lead to
// what else begins there.
std::string_view moved_references::declared_pointee(const values& of, const pointer_map::word& word) {
  if (word.of != nullptr) return word.of->name;
  const auto [known, is_new] = declared_.try_emplace(&word);
  if (is_new) known->second = pointee_of(declared_type_of_pointer(*of.type.of, *of.type.words, word));
  return known->second;
}

void moved_references::rewrite_cell(std::byte* bytes, const elsewhere& other) {
  auto* const cell = reinterpret_cast<tenure::detail::weak_cell*>(bytes);
  auto at = reinterpret_cast<address>(tenure::detail::shown(cell->hidden));
  if (at == 0) return;
  address to = other ? other(at, {}) : 0;
  if (to == 0) {
    if (orders_ != nullptr) at = orders_->entry_at(at);
    to = moved(find(at), at, {});
  }
  cell->hidden = to == 0 ? 0 : tenure::detail::hide(reinterpret_cast<const void*>(to));
  if (to == 0) ++weak_cleared_;
}

void moved_references::refuse(const values& all, std::uint64_t offset, address to, const target& base) const {
  const type& of = *all.type.of;
  const std::string field = pointer_map::path_of(of, of.size == 0 ? 0 : offset % of.size),
                    from = (all.object != 0 ? object_text(store_, all.object) : "a new " + of.name) +
                           (field.empty() ? "" : "." + field);
  const bool is_inside = base.object != 0 && to >= base.object && to <= base.object + base.size;
  if (is_inside && types_[base.database].at(base.type).how != nullptr)
    throw error(errc::schema_mismatch, from + " refers to " + object_text(store_, base.object) +
                                           field_text(store_, base.object, to - base.object) +
                                           ", and nothing becomes of this field; declare what does, or set the pointer "
                                           "in a function (converted)");
  // What functions set may be no pointer into the store, which the store itself does not have.
  if (all.object == 0 || (all.type.how != nullptr && !all.type.how->functions.empty()))
    throw error(errc::schema_mismatch,
                from + " refers to " + os::hexadecimal(reinterpret_cast<const void*>(to)) +
                    ", which is no object: a function (converted) may set pointers to what the store had, as new_of() "
                    "tells, and to what make() has made; if none has set this one, `tenure verify` says what is wrong");
  throw error(errc::damaged, from + " refers to " + os::hexadecimal(reinterpret_cast<const void*>(to)) +
                                 ", where it cannot; `tenure verify` says what else is wrong");
}

}  // namespace tenure::rewriting
