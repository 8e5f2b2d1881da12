// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "objects/database_set.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <mutex>

#include "log/invariant.hpp"
#include "objects/format.hpp"

namespace tenure {

namespace {

// Also held while databases are added to a set or removed: other threads look for addresses in the sets.
std::mutex open_mutex;
std::vector<database_set*> open;
std::atomic<std::size_t> how_many{0};

}  // namespace

database_state* database_set::find(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, [](const auto& d) -> const std::string& { return d->name; });
  return found == all_.end() ? nullptr : found->get();
}

database_state& database_set::add(std::unique_ptr<database_state> made) {
  const std::scoped_lock lock(open_mutex);
  by_home_.reserve(all_.size() + 1);
  all_.push_back(std::move(made));
  database_state& d = *all_.back();
  by_home_.insert(std::ranges::upper_bound(by_home_, d.home, {}, &located_database::home), {d.home, &d});
  return d;
}

void database_set::remove_last() {
  const std::scoped_lock lock(open_mutex);
  std::erase_if(by_home_, [&](const located_database& each) { return each.state == all_.back().get(); });
  all_.pop_back();
}

void database_set::announce() {
  const std::scoped_lock lock(open_mutex);
  assert(std::ranges::find(open, this) == open.end());
  open.push_back(this);
  how_many = open.size();
}

void database_set::check() const {
  using rvm::require_invariant;
  for (const auto& d : all_) {
    require_invariant(&d->owner == this && find(d->name) == d.get(), "a database is found by its name");
    require_invariant(at(reinterpret_cast<const void*>(d->home)) == d.get(), "a database is found by its addresses");
    for (const auto& other : all_)
      require_invariant(
          other == d || d->home + d->reservation <= other->home || other->home + other->reservation <= d->home,
          "databases have different addresses");  // both reservations begin as far before home
    d->check();
  }
}

void database_set::clear() noexcept {
  const std::scoped_lock lock(open_mutex);
  std::erase(open, this);
  how_many = open.size();
  by_home_.clear();
  all_.clear();
}

database_set* open_set_with(const void* address) noexcept {
  const std::scoped_lock lock(open_mutex);
  const auto found = std::ranges::find_if(open, [&](database_set* s) { return s->at(address) != nullptr; });
  return found == open.end() ? nullptr : *found;
}

std::size_t open_sets() noexcept { return how_many.load(std::memory_order_relaxed); }

}  // namespace tenure
