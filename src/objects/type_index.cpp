// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/type_index.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <tenure/error.hpp>
#include <tenure/evolve.hpp>
#include <tenure/registry.hpp>

#include "log/invariant.hpp"
#include "os/room_for_one.hpp"
#include "os/virtual_memory.hpp"
#include "types/differences.hpp"
#include "types/stable_vtables.hpp"

namespace tenure::heap {

namespace {

std::string text_of(const stored_text& text) { return {text.text, text.length}; }

// The vtable pointers of a type of the program.
std::uint32_t slots_of(const type& program) {
  const bool has = program.operations != nullptr && program.operations->vtables != nullptr;
  return has ? static_cast<std::uint32_t>(program.operations->vtables().size()) : 0;
}

std::size_t table_length() {
  const std::size_t page = os::page_size();
  return ((std::size_t{1} << 20) * sizeof(known_type*) + page - 1) / page * page;
}

}  // namespace

cell_kind cell_kind_of(const type& of) {
  return of.name == "tenure::detail::weak_cell"            ? cell_kind::weak
         : of.name == "tenure::detail::finalization_entry" ? cell_kind::finalization
                                                           : cell_kind::none;
}

type_index::type_index(std::string database, std::byte* slots)
    : database_(std::move(database)),
      slots_(slots),
      table_(static_cast<known_type**>(os::map_anonymous(nullptr, table_length())),
             [](known_type** table) { os::unmap(table, table_length()); }) {}

known_type& type_index::add(const guard&, std::unique_ptr<known_type> made) {
  known_type& known = *made;
  if (known.index >= most_types)
    throw error(errc::out_of_memory, "the database " + database_ + " has no room for another type");
  assert(table_[known.index] == nullptr);
  known.cell = cell_kind_of(*known.of);
  all_.push_back(std::move(made));
  try {
    by_name_.emplace(known.of->name, known.index);
  } catch (...) {
    all_.pop_back();
    throw;
  }
  table_[known.index] = &known;
  count_.store(std::max(count_.load(), known.index + 1), std::memory_order_release);
  next_slot_ = std::max(next_slot_, known.first_slot + known.slots);
  return known;
}

void type_index::read(const type_table& stored) {
  const guard lock(mutex_);
  for (std::uint64_t n = 1; n < stored.count; ++n) {
    if (stored.types[n] == nullptr) continue;  // it got a number, but no object of it became persistent
    const stored_type& s = *stored.types[n];
    auto made = std::make_unique<known_type>();
    made->index = static_cast<std::uint32_t>(n);
    made->owned = std::make_unique<type>();
    made->stored = stored.types[n];
    made->first_slot = s.first_slot;
    made->slots = s.slots;
    type& t = *made->owned;
    t.name = text_of(s.name);
    t.size = s.size;
    t.alignment = s.alignment;
    t.version = s.version;
    t.fingerprint = s.fingerprint;
    t.is_conservative = (s.flags & stored_type_conservative) != 0;
    t.tolerates_stale = (s.flags & stored_type_tolerates_stale) != 0;
    made->of = &t;
    add(lock, std::move(made));
  }
  // Fields refer to other types, some of which come later in the table.
  for (const auto& known : all_) {
    for (std::uint64_t n = 0; n < known->stored->field_count; ++n) {
      const stored_field& s = known->stored->fields[n];
      type_field f;
      f.name = text_of(s.name);
      f.type_name = text_of(s.type_name);
      f.kind = static_cast<field_kind>(s.kind);
      f.scalar = static_cast<scalar_kind>(s.scalar);
      f.offset = s.offset;
      f.size = s.size;
      f.count = s.count;
      f.subobject = s.subobject;
      if (s.of != 0) f.of = table_[s.of]->of;
      if (s.guard_width != 0)
        f.only_if = field_guard{s.guard_offset, static_cast<std::uint8_t>(s.guard_width), s.guard_value};
      known->owned->fields.push_back(std::move(f));
    }
  }
  for (const auto& known : all_) {
    known->words = std::make_unique<pointer_map>(*known->of);
    if (known->words->has_transients()) has_transients_.store(true, std::memory_order_relaxed);
    make_vtables(*known);
  }
}

// The vtables of a type that the program does not have, or does not have yet, lead to an error message.
void type_index::make_vtables(known_type& of) {
  assert((std::uint64_t{of.first_slot} + of.slots) * vtable_slot <= vtable_area);
  for (std::uint32_t n = 0; n < of.slots; ++n) {
    std::byte* const slot = slots_ + (of.first_slot + n) * vtable_slot;
    if (of.of->operations != nullptr && of.of->operations->vtables != nullptr)
      types::fill(slot, *of.of, n);
    else
      types::fill_with_stub(slot, of.of->name);
  }
  std::vector<stored_address> values(of.words->words().size(), stored_address::none);
  for (std::size_t n = 0; n < values.size(); ++n) {
    const pointer_map::word& w = of.words->words()[n];
    if (w.kind != field_kind::vtable) continue;
    const auto found = by_name_.find(w.of->name);
    if (found == by_name_.end())
      throw error(errc::damaged, "the database " + database_ + " is damaged: it has the type " + of.of->name +
                                     ", but not " + w.of->name + ", which is in it; restore it from a backup");
    const known_type& whose = *table_[found->second];
    values[n] = stored_address_of(types::word_of(slots_ + (whose.first_slot + w.slot) * vtable_slot));
  }
  // Those of a type that is bound are the same, and others may be reading them.
  if (values != of.vtable_words) of.vtable_words = std::move(values);
}

void type_index::compare_registered() {
  for (const type* const program : registered_types()) {
    const guard lock(mutex_);
    if (by_name_.contains(program->name)) (void)index_of(lock, *program);
    if (program->operations == nullptr || program->operations->changes == nullptr) continue;
    // Unless another class of the program has that name now.
    const auto is_reused = [](const std::string& name) {
      const auto all = registered_types();
      return std::ranges::find(all, name, [](const type* t) -> const std::string& { return t->name; }) != all.end();
    };
    for (const std::string& old : program->operations->changes().old_names)
      if (by_name_.contains(old) && !is_reused(old))
        throw error(errc::schema_mismatch, "the database " + database_ + " has objects of " + old + ", as " +
                                               program->name +
                                               " was named before; nothing was changed; open it with "
                                               "store_options::evolve, which converts them");
  }
}

std::uint32_t type_index::index_of(const type& of) {
  // A direct-mapped cache of what the thread asked last.
  struct asked {
    const type_index* in = nullptr;
    const type* of = nullptr;
    std::uint32_t index = 0;
  };
  static thread_local asked last[16];
  asked& mine = last[(reinterpret_cast<std::uintptr_t>(&of) / 64) % 16];
  if (mine.of == &of && mine.in == this) {  // or a type that was at the same address before
    if (const known_type* const known = find(mine.index); known != nullptr && known->of == &of) return mine.index;
  }
  const guard lock(mutex_);
  mine = {this, &of, index_of(lock, of)};
  return mine.index;
}

std::uint32_t type_index::index_of(const guard& lock, const type& of) {
  if (const auto known = by_type_.find(&of); known != by_type_.end()) return known->second;
  if (const auto known = by_name_.find(of.name); known != by_name_.end()) {
    bind(lock, *table_[known->second], of);
    return known->second;
  }
  // The types that it contains come first.
  for (const type_field& f : of.fields)
    if (f.kind == field_kind::nested && f.of) (void)index_of(lock, f.of());
  auto made = std::make_unique<known_type>();
  made->index = count_.load(std::memory_order_relaxed);
  made->of = &of;
  made->words = std::make_unique<pointer_map>(of);
  made->first_slot = next_slot_;
  made->slots = slots_of(of);
  if ((made->first_slot + made->slots) * vtable_slot > vtable_area)
    throw error(errc::out_of_memory,
                "the database " + database_ + " has no room for the virtual functions of " + of.name);
  known_type& known = add(lock, std::move(made));
  try {
    make_vtables(known);
    by_type_.emplace(&of, known.index);
  } catch (...) {
    remove_last(lock);
    throw;
  }
  if (known.words->has_transients()) has_transients_.store(true, std::memory_order_relaxed);
  return known.index;
}

// Of which there are no objects yet: there was no memory for it.
void type_index::remove_last(const guard&) noexcept {
  const known_type& last = *all_.back();
  next_slot_ = last.first_slot;
  count_.store(last.index, std::memory_order_release);
  table_[last.index] = nullptr;
  by_name_.erase(by_name_.find(last.of->name));
  all_.pop_back();
}

void type_index::refuse_unknown(std::uint32_t index) const {
  throw error(errc::damaged, "the database " + database_ + " is damaged: an object has the unknown type " +
                                 std::to_string(index) + "; `tenure verify` says which");
}

void type_index::bind(const guard&, known_type& known, const type& program) {
  if (known.of == &program) return;
  if (known.of->operations != nullptr || known.owned == nullptr) {
    // Two types of the program with the same name, in parts of the program that do not see each other's types.
    if (known.of->fingerprint == program.fingerprint) {
      by_type_.emplace(&program, known.index);
      return;
    }
  }
  if (known.of->fingerprint != program.fingerprint || known.of->version != program.version ||
      known.of->size != program.size) {
    std::string text = "the database " + database_ + " has objects of " + program.name +
                       " with another layout than this program's; nothing was changed:";
    for (const std::string& line : types::differences(*known.of, program)) text += "\n  " + line;
    throw error(errc::schema_mismatch, text + "\nstore_options::evolve converts them (tenure/evolve.hpp)");
  }
  if (known.slots != slots_of(program))
    throw error(errc::damaged, "the database " + database_ + " is damaged: its type " + program.name + " has " +
                                   std::to_string(known.slots) + " vtable pointers, not " +
                                   std::to_string(slots_of(program)) + "; restore it from a backup");
  auto words = std::make_unique<pointer_map>(program);
  os::reserve_one_more(replaced_);
  by_type_.emplace(&program, known.index);
  const type* const was = std::exchange(known.of, &program);
  std::swap(known.words, words);
  try {
    make_vtables(known);
  } catch (...) {
    by_type_.erase(&program);
    known.of = was;
    std::swap(known.words, words);
    throw;
  }
  replaced_.push_back(std::move(words));
}

bool type_index::canonicalize(const known_type& of, std::byte* object, std::uint64_t size) const {
  return canonicalize(of, object, size, 0, size);
}

bool type_index::canonicalize(const known_type& of, std::byte* object, std::uint64_t size, std::uint64_t from,
                              std::uint64_t to) const {
  if (!of.words->has_vtables()) return false;
  bool changed = false;
  const std::uint64_t stride = of.of->size;
  for (std::uint64_t at = from / stride * stride; at < to && at + stride <= size; at += stride)
    for (std::size_t n = 0; n < of.vtable_words.size(); ++n) {
      const pointer_map::word& w = of.words->words()[n];
      if (w.kind != field_kind::vtable || at + w.offset >= to || at + w.offset + sizeof(void*) <= from) continue;
      if (!of.words->holds(w, object + at)) continue;
      const stored_address right = of.vtable_words[n], is = stored_address_in(object + at + w.offset);
      if (is == right || is == stored_address::none) continue;  // null: an element of an array that holds no object
      std::memcpy(object + at + w.offset, &right, sizeof right);
      changed = true;
    }
  return changed;
}

void type_index::check() const {
  using rvm::require_invariant;
  const guard lock(mutex_);
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  bool has_transients = false;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> slots;  // first, end
  for (const auto& known : all_) {
    if (known->slots != 0) slots.emplace_back(known->first_slot, known->first_slot + known->slots);
    require_invariant(known->index != 0 && known->index < count && table_[known->index] == known.get(),
                      "a type is found by its number");
    const auto by_name = by_name_.find(known->of->name);
    require_invariant(by_name != by_name_.end() && by_name->second == known->index, "a type is found by its name");
    require_invariant(known->words != nullptr, "a type says where its pointers are");
    has_transients |= known->words->has_transients();
    check_vtables(*known);
    if (known->stored == nullptr) continue;
    require_invariant(text_of(known->stored->name) == known->of->name && known->stored->size == known->of->size &&
                          known->stored->fingerprint == known->of->fingerprint,
                      "a type is the one that its description in the store tells of");
    require_invariant(known->stored->first_slot == known->first_slot && known->stored->slots == known->slots,
                      "a type has the vtable slots of its description");
  }
  require_invariant(by_name_.size() == all_.size(), "a name belongs to one type");
  std::ranges::sort(slots);
  for (std::size_t n = 1; n < slots.size(); ++n)
    require_invariant(slots[n].first >= slots[n - 1].second, "a vtable slot belongs to one type");
  for (const auto& [program, index] : by_type_)
    require_invariant(index < count && table_[index] != nullptr && table_[index]->of->name == program->name,
                      "a type of the program is the stored one of its name");
  require_invariant(has_transients == has_transients_.load(std::memory_order_relaxed),
                    "it is known whether any type has fields that are not recoverable");
}

// [heap.vtable.canonical]
void type_index::check_vtables(const known_type& of) const {
  using rvm::require_invariant;
  require_invariant(of.first_slot + of.slots <= next_slot_, "the vtable slots that were given out are counted");
  require_invariant(of.vtable_words.size() == of.words->words().size(), "each vtable pointer has its value");
  for (std::size_t n = 0; n < of.vtable_words.size(); ++n) {
    const auto* const value = static_cast<const std::byte*>(in_memory(of.vtable_words[n]));
    const bool is_vtable = of.words->words()[n].kind == field_kind::vtable;
    require_invariant(
        is_vtable ? value >= slots_ && value < slots_ + std::uint64_t{next_slot_} * vtable_slot : value == nullptr,
        "a vtable pointer leads to the database's slots");
  }
}

}  // namespace tenure::heap
