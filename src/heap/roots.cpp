// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Named roots [PM3 §6.1]: ordinary persistent objects, changed in transactions like any others.
#include <algorithm>

#include <tenure/error.hpp>

#include "heap/object_text.hpp"
#include "heap/object_walk.hpp"
#include "heap/store_state.hpp"
#include "os/system_error.hpp"

namespace tenure {

using namespace heap;

namespace {

std::string_view view(const stored_text& text) { return {text.text, text.length}; }

}  // namespace

root_entry* database_state::find_root(std::string_view root_name) const { return names->find(root_table(), root_name); }

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
  names->added(table);
}

void database_state::remove_root(std::string_view root_name) {
  heap::root_table& table = root_table();
  root_entry* const found = find_root(root_name);
  if (found == nullptr)
    throw error(errc::no_such_root, file + ": has no root named \"" + std::string(root_name) + "\"");
  detail::retire_object(owner, const_cast<char*>(found->name.text));
  names->removing(table, *found);
  *found = table.entries[table.count - 1];
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

// In the thread's transaction, or while nobody writes.
class reading {
 public:
  explicit reading(store_state& store) : store_(store), inside_(store.is_writer() || store.gate.is_reader()) {
    if (!inside_) store_.gate.enter_to_read();
  }
  ~reading() {
    if (!inside_) store_.gate.leave_reading();
  }
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;

 private:
  store_state& store_;
  const bool inside_;
};

// The object of a root, if it is of the type.
void* require_root(const database_state& in, const root_entry& root, const type& of) {
  const auto what = [&] { return in.file + ": the root \"" + std::string(view(root.name)) + "\""; };
  sound_object is;
  in.nursery->exclusively([&] { is = find_sound(in.owner, root.object); });  // others may be making objects beside it
  if (!is || is.in != &in || is.at != reinterpret_cast<address>(root.object))
    throw error(errc::damaged, what() + " refers to " + os::hexadecimal(root.object) +
                                   ", where no object starts; `tenure verify` says what else is damaged");
  if (in.types->index_of(of) != is.type->index)
    throw error(errc::wrong_type, what() + " is a " + is.type->of->name + ", not a " + of.name);
  if (is.size != std::max<std::uint64_t>(of.size, 1))
    throw error(errc::damaged, what() + ", " + object_text(in.owner, is.at) + ", has " + std::to_string(is.size) +
                                   " bytes; `tenure verify` says what else is damaged");
  return root.object;
}

}  // namespace

void* database::root_object(std::string_view root_name, const type& of, void* (*make_it)(database_state&)) const {
  store_state& store = state_->owner;
  store.require_usable();
  {
    const reading while_found(store);
    store.use();
    if (const root_entry* const found = state_->find_root(root_name)) return require_root(*state_, *found, of);
  }
  if (make_it == nullptr) return nullptr;
  if (root_name.empty() || root_name.size() > 4096)
    throw error(errc::bad_option, state_->file + ": a root's name has 1 to 4096 bytes");
  void* object = nullptr;
  in_transaction(store, [&] {
    const root_entry* const found = state_->find_root(root_name);  // another thread may have been faster
    object = found != nullptr ? require_root(*state_, *found, of) : make_it(*state_);
    if (found == nullptr) state_->add_root(root_name, object);
  });
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
