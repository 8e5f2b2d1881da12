// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "rewrite/new_types.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include <tenure/error.hpp>

#include "objects/stored_types.hpp"
#include "rewrite/changed_keys.hpp"
#include "types/stable_vtables.hpp"

namespace tenure::rewriting {

using namespace heap;

namespace {

std::uint32_t slots_of(const type& program) {
  const bool has = program.operations != nullptr && program.operations->vtables != nullptr;
  return has ? static_cast<std::uint32_t>(program.operations->vtables().size()) : 0;
}

}  // namespace

new_types::new_types(const database_state& from, address home, const types::evolution* plan,
                     std::vector<std::string>& problems)
    : from_(from), home_(home), next_slot_(from.types->slots()) {
  by_index_.resize(from.types->count());
  for (std::uint32_t n = 1; n < from.types->count(); ++n) {
    const known_type* const was = from.types->find(n);
    if (was == nullptr) continue;
    auto made = std::make_unique<new_type>();
    const type* const program = plan != nullptr ? plan->program_type_of(*was->of) : nullptr;
    made->of = program != nullptr ? program : was->of;
    made->first_slot = was->first_slot;
    made->slots = was->slots;
    if (program != nullptr && types::evolution::differ(*was->of, *program)) {
      made->how = std::make_unique<types::value_conversion>(plan->plan(*was->of, *program, problems));
      has_changes_ = true;
      const std::uint32_t slots = slots_of(*program);
      if (slots > made->slots) {
        made->first_slot = next_slot_;
        next_slot_ += slots;
      }
      made->slots = slots;
      if (slots == 0) made->first_slot = 0;
    }
    // Of a class that was renamed, a store may have objects with both names.
    const auto same = by_name_.find(made->of->name);
    made->index = same != by_name_.end() ? same->second : n;
    by_stored_name_.emplace(was->of->name, n);
    add(std::move(made), n);
  }
  for (std::size_t n = 0; n < by_index_.size(); ++n)
    if (by_index_[n] != nullptr && by_index_[n]->how != nullptr) add_nested(*by_index_[n]->of);
  std::vector<const type*> stored;
  for (std::uint32_t n = 1; n < from.types->count(); ++n)
    if (const known_type* const was = from.types->find(n); was != nullptr) stored.push_back(was->of);
  if (plan != nullptr) {
    plan->find_other_problems(stored, problems);
    for (const auto& [name, why] : nodes_with_changed_keys(stored, *plan))
      by_index_[by_stored_name_.at(name)]->refusal = why;
    for (const auto& [name, why] : plan->unknown_with_changes(stored)) {
      new_type& of = *by_index_[by_stored_name_.at(name)];
      of.refusal = why;
      of.is_left_out = true;
    }
  }
  for (const auto& each : by_index_)
    if (each != nullptr) choose_vtables(*each);
}

new_type& new_types::add(std::unique_ptr<new_type> made, std::uint32_t number) {
  new_type& added = *made;
  added.words = std::make_unique<pointer_map>(*added.of);
  added.cell = cell_kind_of(*added.of);
  by_name_.emplace(added.of->name, added.index);
  if (number >= by_index_.size()) by_index_.resize(number + 1);
  by_index_[number] = std::move(made);
  return added;
}

void new_types::add_nested(const type& in) {
  for (const type_field& f : in.fields)
    if (f.kind == field_kind::nested && f.of) (void)of(f.of());
}

const new_type& new_types::of(const type& program) {
  if (const auto known = by_name_.find(program.name); known != by_name_.end()) return *by_index_[known->second];
  add_nested(program);
  auto made = std::make_unique<new_type>();
  made->index = static_cast<std::uint32_t>(by_index_.size());
  if (made->index >= most_types)
    throw error(errc::out_of_memory, "the database " + from_.file + " has no room for another type");
  made->of = &program;
  made->slots = slots_of(program);
  made->first_slot = made->slots != 0 ? next_slot_ : 0;
  next_slot_ += made->slots;
  const std::uint32_t number = made->index;
  new_type& added = add(std::move(made), number);
  choose_vtables(added);
  return added;
}

void new_types::choose_vtables(new_type& of) const {
  if ((std::uint64_t{of.first_slot} + of.slots) * vtable_slot > vtable_area)
    throw error(errc::out_of_memory,
                "the database " + from_.file + " has no room for the virtual functions of " + of.of->name);
  of.vtable_words.clear();
  for (const pointer_map::word& w : of.words->words()) {
    address value = 0;
    if (w.kind == field_kind::vtable) {
      const auto whose = by_name_.find(w.of->name);
      if (whose == by_name_.end())
        throw error(errc::damaged, "the database " + from_.file + " is damaged: it has the type " + of.of->name +
                                       ", but not " + w.of->name + ", which is in it; restore it from a backup");
      const std::uint64_t slot = by_index_[whose->second]->first_slot + w.slot;
      const auto* const at = reinterpret_cast<const std::byte*>(home_ - vtable_area + slot * vtable_slot);
      value = reinterpret_cast<address>(types::word_of(at));
    }
    of.vtable_words.push_back(value);
  }
}

std::uint32_t new_types::number_of(const char* internal) const {
  const auto found = by_name_.find(internal);
  if (found == by_name_.end())
    throw error(errc::damaged, from_.file + ": has no type " + internal + "; `tenure verify` says more");
  return found->second;
}

namespace {

// Collects descriptions, with references instead of pointers.
class describing {
 public:
  struct numbers {
    std::uint32_t table, pointer, type, field, text;
  };
  explicit describing(numbers of) : of_(of) {}

  std::size_t table(std::span<const std::unique_ptr<new_type>> all, std::uint32_t slots,
                    const std::unordered_map<std::string, std::uint32_t>& by_name) {
    type_table t{nullptr, all.size(), all.size(), slots};
    const std::size_t table = add(of_.table, t);
    std::vector<const stored_type*> pointers(all.size());
    const std::size_t array = add_array(of_.pointer, std::span<const stored_type* const>(pointers));
    refer(table, offsetof(type_table, types), array);
    for (std::size_t n = 0; n < all.size(); ++n)
      if (all[n] != nullptr && all[n]->index == n && !all[n]->is_left_out)
        refer(array, n * sizeof(void*), describe(*all[n], by_name));
    return table;
  }
  std::vector<new_types::description> take() { return std::move(made_); }

 private:
  template <class T>
  std::size_t add(std::uint32_t type, const T& value) {
    return add_array(type, std::span(&value, 1));
  }
  template <class T>
  std::size_t add_array(std::uint32_t type, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    made_.push_back({type, {bytes.begin(), bytes.end()}, {}});
    return made_.size() - 1;
  }
  void refer(std::size_t from, std::uint64_t offset, std::size_t to) {
    made_[from].references.emplace_back(offset, to);
  }
  void put_text(std::size_t in, std::uint64_t offset, std::string_view text) {
    if (text.empty()) return;
    const std::uint64_t length = text.size();
    std::memcpy(made_[in].bytes.data() + offset + offsetof(stored_text, length), &length, sizeof length);
    refer(in, offset, add_array(of_.text, std::span(text)));
  }

  std::size_t describe(const new_type& what, const std::unordered_map<std::string, std::uint32_t>& by_name) {
    const type& t = *what.of;
    stored_type s{};
    s.size = t.size;
    s.alignment = t.alignment;
    s.fingerprint = t.fingerprint;
    s.version = t.version;
    s.flags = flags_of(t);
    s.first_slot = what.first_slot;
    s.slots = what.slots;
    s.field_count = t.fields.size();
    const std::size_t made = add(of_.type, s);
    put_text(made, offsetof(stored_type, name), t.name);
    if (t.fields.empty()) return made;
    std::vector<stored_field> fields;
    for (const type_field& f : t.fields)
      fields.push_back(stored_form_of(f, f.kind == field_kind::nested && f.of ? by_name.at(f.of().name) : 0));
    const std::size_t array = add_array(of_.field, std::span<const stored_field>(fields));
    refer(made, offsetof(stored_type, fields), array);
    for (std::size_t n = 0; n < t.fields.size(); ++n) {
      put_text(array, n * sizeof(stored_field) + offsetof(stored_field, name), t.fields[n].name);
      put_text(array, n * sizeof(stored_field) + offsetof(stored_field, type_name), t.fields[n].type_name);
    }
    return made;
  }

  const numbers of_;
  std::vector<new_types::description> made_;
};

}  // namespace

std::vector<new_types::description> new_types::describe() {
  describing made({number_of("tenure::heap::type_table"), number_of("tenure::heap::stored_type*"),
                   number_of("tenure::heap::stored_type"), number_of("tenure::heap::stored_field"), number_of("char")});
  (void)made.table(by_index_, next_slot_, by_name_);
  return made.take();
}

}  // namespace tenure::rewriting
