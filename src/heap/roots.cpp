// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Named roots [PM3 §6.1]: ordinary persistent objects, changed in transactions like any others.
#include <algorithm>

#include <tenure/error.hpp>

#include "heap/object_text.hpp"
#include "heap/store_state.hpp"

namespace tenure {

using namespace heap;

namespace {

std::string_view view(const stored_text& text) { return {text.text, text.length}; }

}  // namespace

root_entry* database_state::find_root(std::string_view root_name) const {
  heap::root_table& table = root_table();
  for (std::uint64_t n = 0; n < table.count; ++n)
    if (view(table.entries[n].name) == root_name) return &table.entries[n];
  return nullptr;
}

void database_state::add_root(std::string_view root_name, void* object) {
  heap::root_table& table = root_table();
  if (table.count == table.capacity) {
    const std::uint64_t capacity = std::max<std::uint64_t>(8, 2 * table.capacity);
    auto* const larger = make_array<root_entry>(capacity);
    std::copy_n(table.entries, table.count, larger);
    if (table.entries != nullptr) detail::retire_object(owner, table.entries);
    table.entries = larger;
    table.capacity = capacity;
  }
  table.entries[table.count] = {make_text(root_name), object};
  ++table.count;
}

void database_state::remove_root(std::string_view root_name) {
  heap::root_table& table = root_table();
  root_entry* const found = find_root(root_name);
  if (found == nullptr)
    throw error(errc::no_such_root, file + ": has no root named \"" + std::string(root_name) + "\"");
  detail::retire_object(owner, const_cast<char*>(found->name.text));
  std::move(found + 1, table.entries + table.count, found);
  table.entries[--table.count] = {};
}

namespace {

// Joins the thread's transaction, or has a durable one of its own.
template <class F>
void in_transaction(store_state& store, F&& f) {
  store.begin();
  try {
    f();
  } catch (...) {
    store.abort();
    throw;
  }
  if (const auto done = store.commit()) store.memory->wait(*done);
}

}  // namespace

void* database::root_object(std::string_view root_name, const type& of, void* (*make_it)(database_state&)) const {
  store_state& store = state_->owner;
  store.require_usable();
  const bool inside = store.is_writer() || store.gate.is_reader();
  if (!inside) store.gate.enter_to_read();
  const root_entry* found = state_->find_root(root_name);
  if (!inside) store.gate.leave_reading();
  void* object = found != nullptr ? found->object : nullptr;
  if (object == nullptr) {
    if (make_it == nullptr) return nullptr;
    if (root_name.empty() || root_name.size() > 4096)
      throw error(errc::bad_option, state_->file + ": a root's name has 1 to 4096 bytes");
    in_transaction(store, [&] {
      found = state_->find_root(root_name);  // another thread may have been faster
      object = found != nullptr ? found->object : make_it(*state_);
      if (found == nullptr) state_->add_root(root_name, object);
    });
  }
  const std::uint32_t index = header_of(reinterpret_cast<address>(object)).type;
  if (state_->types->index_of(of) != index) {
    const known_type* const is = state_->types->find(index);
    throw error(errc::wrong_type, state_->file + ": the root \"" + std::string(root_name) + "\" is a " +
                                      (is != nullptr ? is->of->name : "?") + ", not a " + of.name);
  }
  return object;
}

std::vector<std::string> database::root_names() const {
  store_state& store = state_->owner;
  store.require_usable();
  const bool inside = store.is_writer() || store.gate.is_reader();
  if (!inside) store.gate.enter_to_read();
  std::vector<std::string> names;
  const heap::root_table& table = state_->root_table();
  for (std::uint64_t n = 0; n < table.count; ++n) names.emplace_back(view(table.entries[n].name));
  if (!inside) store.gate.leave_reading();
  return names;
}

void database::remove_root(std::string_view root_name) {
  store_state& store = state_->owner;
  store.require_writable();
  in_transaction(store, [&] { state_->remove_root(root_name); });
}

}  // namespace tenure
