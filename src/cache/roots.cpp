// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Roots: found, set and removed. A transaction keeps what it sets to itself until its commit writes the database's table
// (root_table.hpp) [cache.roots].
#include <list>
#include <string>
#include <utility>

#include <tenure/error.hpp>

#include "cache/open_stores.hpp"
#include "cache/store_state.hpp"
#include "cache/words.hpp"
#include "objects/stored_types.hpp"
#include "os/system_error.hpp"

namespace tenure::cache {

namespace {

// Of the object that is locked in place of a database's roots: it is in the table of objects for its lock only.
const bound_type& locked_roots() {
  static const type plain = [] {
    type t;
    t.name = type_of<heap::root_table>().name;
    t.size = sizeof(heap::root_table);
    t.alignment = alignof(heap::root_table);
    return t;
  }();
  static const bound_type bound{
      .index = 0, .program = &plain, .words = pointer_map(plain), .stored_vtables = {}, .flags = {}, .reached_by = {}};
  return bound;
}

std::optional<std::uint64_t> find_root(open_database& in, const open_transaction* tx, std::string_view name) {
  if (tx != nullptr)
    if (const auto set = tx->roots.find(&in); set != tx->roots.end())
      if (const auto found = set->second.find(name); found != set->second.end()) return found->second;
  const auto found = in.roots().find(std::string(name));
  return found == in.roots().end() ? std::nullopt : std::optional(found->second.object);
}

}  // namespace

void store_state::lock_roots(std::unique_lock<std::mutex>& lock, open_transaction* tx, open_database& of,
                             lock_mode mode) {
  if (!locks_objects_ || tx == nullptr) return;
  const auto home = static_cast<std::uint64_t>(of.stored.header().roots);
  if (home == 0) throw of.stored.damaged("its header refers to no table of roots");
  cached_object* roots = objects_.find(home);
  if (roots == nullptr) {
    objects_.require_room(object_table::cost_of(sizeof(heap::root_table)), [] { return "the lock of roots"; });
    std::list<cached_object> made;
    made.emplace_back(objects_, of.stored, stored_database::stored_object{home, 0, sizeof(heap::root_table)},
                      locked_roots());
    objects_.add(std::move(made));
    roots = objects_.find(home);
  }
  (void)locks_.acquire(lock, *tx, *roots, mode);  // nobody destroys it
}

std::uint64_t store_state::root_word(std::string_view name, std::string_view in, const type& declared, bool must_be) {
  require_usable();
  open_transaction* const tx = transaction_in(*this);
  std::unique_lock lock(mutex_);
  open_database& d = database(in);
  lock_roots(lock, tx, d, lock_mode::shared);
  const std::optional<std::uint64_t> found = find_root(d, tx, name);
  if (!found) {
    if (!must_be) return 0;
    throw error(errc::no_such_root, d.stored.file() + ": has no root \"" + std::string(name) + "\"");
  }
  const auto what = [&] { return d.stored.file() + ": the root \"" + std::string(name) + "\""; };
  const auto require_type = [&](const std::string& is) {
    if (is != declared.name) throw error(errc::wrong_type, what() + " is a " + is + ", not a " + declared.name);
  };
  if (const cached_object* const made = objects_.find_made(*found)) {
    require_type(made->type.program->name);
    return identifier_of(*found);
  }
  const stored_database::stored_object object = d.stored.find(*found);
  if (!object || object.at != *found)
    throw error(errc::damaged, what() + " refers to " + os::hexadecimal(*found) +
                                   ", where no object starts; `tenure verify` says what else is damaged");
  require_type(d.types.name_of(object.type));
  (void)d.types.bind(object.type, &declared);
  return identifier_of(*found);
}

std::vector<std::string> store_state::root_names(std::string_view in) {
  require_usable();
  open_transaction* const tx = transaction_in(*this);
  std::unique_lock lock(mutex_);
  open_database& d = database(in);
  lock_roots(lock, tx, d, lock_mode::shared);
  std::vector<std::string> names;
  for (const auto& [name, root] : d.roots())
    if (find_root(d, tx, name)) names.push_back(name);
  if (tx != nullptr)
    if (const auto set = tx->roots.find(&d); set != tx->roots.end())
      for (const auto& [name, object] : set->second)
        if (object && !d.roots().contains(name)) names.push_back(name);
  return names;
}

open_transaction::root_changes& store_state::changed_roots(std::unique_lock<std::mutex>& lock, open_transaction& tx,
                                                           open_database& of) {
  if (!tx.writes)
    throw error(errc::read_only, directory_ + ": roots cannot be changed in a transaction that only reads");
  lock_roots(lock, &tx, of, lock_mode::exclusive);
  return tx.roots[&of];
}

// The object is locked, so that nobody else destroys it before the commit.
void store_state::set_root(open_transaction& tx, std::string_view name, std::string_view in, std::uint64_t home,
                           const type& declared) {
  require_usable();
  std::unique_lock lock(mutex_);
  open_database& d = database(in);
  const auto refuse = [&](const std::string& why) {
    throw error(errc::cannot_persist,
                d.stored.file() + ": the root \"" + std::string(name) + "\" cannot be set: " + why);
  };
  if (name.empty() || name.size() > longest_root_name)
    throw error(errc::bad_option, d.stored.file() + ": the name of a root has 1 to " +
                                      std::to_string(longest_root_name) + " bytes, and this one " +
                                      std::to_string(name.size()));
  if (home == 0) refuse("the ref is null; remove_root removes a root");
  if (!d.stored.contains(home))
    refuse("the ref leads to " + os::hexadecimal(home) +
           ", where no object of the database is: it is in another one, or was destroyed");
  open_transaction::root_changes& changes = changed_roots(lock, tx, d);
  const auto [object, offset, loaded] =
      locks_objects_ ? reach_and_lock(lock, tx, home, declared) : loader_.reach(home, &declared);
  if (object->state == object_state::destroyed) refuse(object->text() + ", was destroyed in this transaction");
  if (offset != 0) refuse(os::hexadecimal(home) + " lies inside " + object->text() + ", and is no object of its own");
  if (object->type.program->name != declared.name)
    refuse(object->text() + ", is not a " + declared.name + ": a root is of the type that its object was made as");
  if (object->size != object->type.program->size)
    refuse(object->text() + ", is an array, which belongs to a container");
  changes.insert_or_assign(std::string(name), home);
}

void store_state::remove_root(open_transaction& tx, std::string_view name, std::string_view in) {
  require_usable();
  std::unique_lock lock(mutex_);
  open_database& d = database(in);
  open_transaction::root_changes& changes = changed_roots(lock, tx, d);
  if (!find_root(d, &tx, name))
    throw error(errc::no_such_root, d.stored.file() + ": has no root \"" + std::string(name) + "\"");
  changes.insert_or_assign(std::string(name), std::nullopt);
}

}  // namespace tenure::cache
