// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "cache/stored_types.hpp"

#include <algorithm>
#include <span>

#include <tenure/registry.hpp>

#include "cache/type_check.hpp"
#include "objects/stored_types.hpp"
#include "regions/announced_stores.hpp"
#include "types/stable_vtables.hpp"

namespace tenure::cache {

namespace {

constexpr std::uint64_t longest_text = 1 << 20;

// An object of the heap's own, with the addresses that are stored in place of pointers.
template <class T>
T read_as(stored_database& from, std::uint64_t at, const std::string& what) {
  const stored_database::stored_object found = from.find(at);
  if (!found || found.at != at || found.size < sizeof(T)) throw from.damaged(what + " is no object");
  T value;
  from.read(at, std::as_writable_bytes(std::span(&value, 1)), what);
  return value;
}

std::uint32_t slots_of(const type& program) {
  const rvm::own_stores constructors;  // of programs, which vtables() may call, with the store's mutex
  const bool has = program.operations != nullptr && program.operations->vtables != nullptr;
  return has ? static_cast<std::uint32_t>(program.operations->vtables().size()) : 0;
}

}  // namespace

std::string stored_types::text(std::uint64_t at, std::uint64_t length, const std::string& what) {
  if (length > longest_text) throw of_.damaged(what + " has a name of " + std::to_string(length) + " bytes");
  std::string result(static_cast<std::size_t>(length), '\0');
  of_.read(at, std::as_writable_bytes(std::span(result)), "the name of " + what);
  return result;
}

void stored_types::read() {
  const auto at = static_cast<std::uint64_t>(of_.header().types);
  if (at == 0) return;
  const auto table = read_as<heap::type_table>(of_, at, "its type table");
  if (table.count > heap::most_types)
    throw of_.damaged("its type table has " + std::to_string(table.count) + " entries");
  std::vector<std::uint64_t> places(static_cast<std::size_t>(table.count));
  of_.read(address_of(table.types), std::as_writable_bytes(std::span(places)), "its type table");
  all_.resize(places.size());
  for (std::uint32_t n = 1; n < places.size(); ++n) {
    if (places[n] == 0) continue;
    const std::string what = "its type " + std::to_string(n);
    const auto t = read_as<heap::stored_type>(of_, places[n], what);
    if (std::uint64_t{t.first_slot} + t.slots > heap::vtable_area / heap::vtable_slot)
      throw of_.damaged(what + " has too many virtual functions");
    all_[n] = {text(address_of(t.name.text), t.name.length, what),
               t.size,
               t.fingerprint,
               t.version,
               t.first_slot,
               t.slots,
               nullptr};
    by_name_.emplace(all_[n].name, n);
    next_slot_ = std::max(next_slot_, t.first_slot + t.slots);
  }
  next_slot_ = std::max(next_slot_, static_cast<std::uint32_t>(table.slots));
}

std::uint32_t stored_types::index_of(const type& program) {
  if (const auto known = by_name_.find(program.name); known != by_name_.end()) {
    require_same(all_[known->second], program);
    return known->second;
  }
  // The types that it contains come first.
  for (const type_field& f : program.fields)
    if (f.kind == field_kind::nested && f.of) (void)index_of(f.of());
  const auto index = static_cast<std::uint32_t>(std::max<std::size_t>(all_.size(), 1));
  const std::uint32_t slots = slots_of(program);
  if (index >= heap::most_types)
    throw error(errc::out_of_memory, of_.file() + ": has no room for another type, " + program.name);
  if ((std::uint64_t{next_slot_} + slots) * heap::vtable_slot > heap::vtable_area)
    throw error(errc::out_of_memory, of_.file() + ": has no room for the virtual functions of " + program.name);
  stored made{program.name, program.size, program.fingerprint, program.version, next_slot_, slots, &program};
  all_.reserve(index + 1);  // where there is no memory, nothing has changed
  by_name_.emplace(program.name, index);
  all_.resize(index + 1);
  all_[index] = std::move(made);
  next_slot_ += slots;
  return index;
}

std::optional<stored_types::undescribed> stored_types::find_undescribed(std::uint32_t index) const {
  const stored& s = all_.at(index);
  if (s.program == nullptr) return std::nullopt;
  return undescribed{s.program, s.first_slot, s.slots};
}

void stored_types::require_registered() const {
  for (const type* const program : registered_types())
    if (const auto found = by_name_.find(program->name); found != by_name_.end())
      require_same(all_[found->second], *program);
}

void stored_types::require_same(const stored& s, const type& program) const {
  if (s.fingerprint == program.fingerprint && s.version == program.version && s.size == program.size) {
    if (s.slots == slots_of(program)) return;
    throw of_.damaged("its type " + s.name + " has " + std::to_string(s.slots) + " vtable pointers, not " +
                      std::to_string(slots_of(program)));
  }
  throw error(errc::schema_mismatch,
              of_.file() + ": the database has objects of " + s.name + " with another layout than this program's (" +
                  std::to_string(s.size) + " and " + std::to_string(program.size) +
                  " bytes); nothing was changed; opened as a tenure::store, it says what differs, "
                  "and store_options::evolve converts them (tenure/evolve.hpp)");
}

const type& stored_types::program_type(const stored& s, const type* declared) const {
  if (declared != nullptr && declared->name == s.name) return *declared;
  for (const type* const known : registered_types())
    if (known->name == s.name) return *known;
  throw error(errc::wrong_type, of_.file() + ": an object is a " + s.name +
                                    ", which this program does not have, or has not registered: see "
                                    "tenure::register_type");
}

const bound_type& stored_types::bind(std::uint32_t index, const type* declared) {
  known_type& known = known_[index % known_.size()];
  if (known.index != index || known.declared != declared) known = {index, declared, &find_or_bind(index, declared)};
  return *known.bound;
}

const bound_type& stored_types::find_or_bind(std::uint32_t index, const type* declared) {
  if (index >= all_.size() || all_[index].name.empty())
    throw of_.damaged("an object has the unknown type " + std::to_string(index));
  const stored& s = all_[index];
  // Without a declared type that has the name, the first one that was registered counts, under nullptr.
  const type* const asked = declared != nullptr && declared->name == s.name ? declared : nullptr;
  const auto known = bound_.find({index, asked});
  if (known != bound_.end()) return *known->second;
  const type& program = program_type(s, asked);
  require_same(s, program);
  if (program.is_conservative)
    throw error(errc::bad_type, s.name +
                                    ": its layout is not known exactly, so its objects cannot be in a cache: let "
                                    "the class describe itself (tenure/types/persist.hpp)");
  return *bound_.emplace(std::pair(index, asked), make(index, program)).first->second;
}

std::unique_ptr<bound_type> stored_types::make(std::uint32_t index, const type& program) const {
  auto made = std::make_unique<bound_type>(bound_type{index, &program, pointer_map(program), {}, false, {}, {}});
  for (const field_guard& guard : made->words.guards())
    made->flags.push_back(guard.width == 1 && has_bool_at(program, guard.offset));
  for (const pointer_map::word& w : made->words.words()) {
    made->has_checked |= w.is_checked;
    made->stored_vtables.push_back(0);
    if (w.kind != field_kind::vtable) continue;
    const auto whose = by_name_.find(w.of->name);
    if (whose == by_name_.end() || w.slot >= all_[whose->second].slots || w.slot >= slots_of(*w.of))
      throw of_.damaged("it has the type " + program.name + ", but not " + w.of->name + ", which is in it");
    made->stored_vtables.back() = of_.home() - heap::vtable_area +
                                  (all_[whose->second].first_slot + w.slot) * heap::vtable_slot +
                                  types::vtable_slot_before;
  }
  return made;
}

std::string stored_types::name_of(std::uint32_t index) const {
  return index < all_.size() && !all_[index].name.empty() ? all_[index].name : "type " + std::to_string(index);
}

}  // namespace tenure::cache
