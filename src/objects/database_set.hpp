// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The databases of an open store: finds the database of an address, and holds what the databases share. Open sets know
// each other, so that the database of any address in the process can be found.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/rvm.hpp>
#include <tenure/store/options.hpp>

#include "objects/database_state.hpp"

namespace tenure {

struct store_state;

// The list of databases changes only while no other thread uses the store or looks for an address in any store.
class database_set {
 public:
  // `store`: the owner of the databases. It is passed on to public handles and not used here.
  // `is_rewritten`: it was opened to be written anew, and nobody makes objects in it.
  database_set(store_state& store, rvm::memory& memory, std::string directory, const store_options& how,
               bool is_rewritten = false)
      : store_(store),
        memory_(memory),
        directory_(std::move(directory)),
        how_(how),
        makes_objects_(!is_rewritten && how.mode != rvm::open_mode::read_only) {}
  ~database_set() { clear(); }
  database_set(const database_set&) = delete;
  database_set& operator=(const database_set&) = delete;

  [[nodiscard]] store_state& store() const { return store_; }
  [[nodiscard]] rvm::memory& memory() const { return memory_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] const store_options& how() const { return how_; }
  [[nodiscard]] bool is_read_only() const { return how_.mode == rvm::open_mode::read_only; }

  [[nodiscard]] bool makes_objects() const { return makes_objects_; }

  // The database that contains the address; nullptr: none.
  [[nodiscard]] database_state* at(const void* address) const {
    const auto where = reinterpret_cast<heap::address>(address);
    auto next = std::ranges::upper_bound(by_home_, where, {}, &located_database::home);
    if (next == by_home_.begin()) return nullptr;
    --next;
    return next->state->map->contains(where) ? next->state : nullptr;
  }
  [[nodiscard]] database_state* find(std::string_view name) const;
  // The default database, which is the first.
  [[nodiscard]] database_state& front() const { return *all_.front(); }
  [[nodiscard]] database_state& operator[](std::size_t n) const { return *all_[n]; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  // Runs f while no thread makes or takes back objects in any of the databases.
  template <class F>
  void with_births_locked(F&& f) const {
    with_births_locked(f, 0);
  }
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }

  database_state& add(std::unique_ptr<database_state> made);
  void remove_last();
  // announce(): from now on open_set_with() finds the set. The next function ends that.
  void announce();
  // Throws if an invariant does not hold, of the set or of a database. As database_state::check().
  void check() const;
  void clear() noexcept;

 private:
  template <class F>
  void with_births_locked(F& f, std::size_t from) const {
    if (from == all_.size()) return f();
    if (all_[from]->birth == nullptr) return with_births_locked(f, from + 1);
    all_[from]->birth->with_lock([&] { with_births_locked(f, from + 1); });
  }

  struct located_database {
    heap::address home;
    database_state* state;
  };

  store_state& store_;
  rvm::memory& memory_;
  const std::string directory_;
  const store_options& how_;
  const bool makes_objects_;
  std::vector<std::unique_ptr<database_state>> all_;
  std::vector<located_database> by_home_;  // the same, by their addresses
};

// The set of an open store that has a database at the address; nullptr: none.
[[nodiscard]] database_set* open_set_with(const void* address) noexcept;
// The number of open sets.
[[nodiscard]] std::size_t open_sets() noexcept;

}  // namespace tenure
