// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The public surface: databases and their roots [PM3 §6.1].
#include <algorithm>

#include <tenure/error.hpp>

#include "objects/object_text.hpp"
#include "objects/object_walk.hpp"
#include "os/system_error.hpp"
#include "store/store_state.hpp"

namespace tenure {

using namespace heap;

const std::string& database::name() const { return state_->name; }
std::uint64_t database::home() const { return state_->home; }
std::uint64_t database::reservation() const { return state_->reservation; }

namespace {

std::string_view view(const stored_text& text) { return {text.text, text.length}; }

// Joins the thread's transaction, or opens a durable one.
template <class F>
void in_transaction(store_state& store, F&& f) {
  if (store.is_writer()) return f();
  store.begin();
  ticket done;
  try {
    f();
    done = store.commit();
  } catch (...) {
    if (store.is_writer()) store.abort();
    throw;
  }
  store.memory->wait(done);
}

// The object of a root, if it has the type.
void* require_root(const database_state& in, const root_entry& root, const type& of) {
  const auto what = [&] { return in.file + ": the root \"" + std::string(view(root.name)) + "\""; };
  sound_object is;
  in.birth->with_lock(
      [&] { is = find_sound(in.owner, root.object); });  // other threads may be making objects meanwhile
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
  store_state& store = state_->owner.store();
  store.require_usable();
  {
    const reading_scope while_found(store);
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
  store_state& store = state_->owner.store();
  store.require_usable();
  const reading_scope reading(store);
  std::vector<std::string> names;
  const heap::root_table& table = state_->root_table();
  for (std::uint64_t n = 0; n < table.count; ++n) names.emplace_back(view(table.entries[n].name));
  return names;
}

void database::remove_root(std::string_view root_name) {
  store_state& store = state_->owner.store();
  store.require_writable();
  in_transaction(store, [&] { state_->remove_root(root_name); });
}

}  // namespace tenure
