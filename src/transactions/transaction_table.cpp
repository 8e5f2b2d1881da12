// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "transactions/transaction_table.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "log/invariant.hpp"
#include "os/fault.hpp"
#include "regions/announced_stores.hpp"

namespace tenure::rvm {

namespace {

// The object that the thread used last, to be used again. Its memory may have been destroyed; the memory's number shows
// that.
template <class T>
struct used_before {
  std::uint64_t memory = 0;
  T* transaction = nullptr;
};
template <class T>
thread_local used_before<T> hint;

// Of this thread, in this process: never used again.
std::uint64_t thread_number() {
  static constinit std::atomic<std::uint64_t> last{0};
  static constinit thread_local std::uint64_t own = 0;
  if (own == 0) [[unlikely]]
    own = ++last;
  return own;
}

}  // namespace

template <class T>
T& transaction_table::claim(list<T>& all) {
  used_before<T>& last = hint<T>;
  const std::uint64_t number = parts_.of.number();
  if (last.memory == number && last.transaction->take()) return *last.transaction;
  const std::scoped_lock lock(list_mutex_);
  for (const auto& tx : all)
    if (tx->take()) {
      last = {number, tx.get()};
      return *tx;
    }
  all.push_back(std::make_unique<T>(*this));
  T& made = *all.back();
  (void)made.take();
  last = {number, &made};
  return made;
}

// A transaction that declares four ranges and commits lazily takes 0.4 µs, and every locked instruction takes at least
// 7 ns of it. So begin() and end() take no lock, and each transaction object has its own totals.
transaction_state& transaction_table::begin(restore_mode mode) {
  parts_.of.require_writable();
  parts_.writer.require_usable();
  transaction_state& tx = claim(explicit_);
  tx.begin(next_id(), mode, thread_number());
  return tx;
}

transaction_state& transaction_table::begin_automatic() {
  parts_.of.require_writable();
  parts_.writer.require_usable();
  os::unblock_faults();
  automatic_right& right = parts_.tracked.right();
  right.take_for_transaction();
  try {
    parts_.of.require_writable();  // the memory may have been closed meanwhile
    parts_.writer.require_usable();
    parts_.tracked.begin();
    transaction_state& tx = claim(automatic_);
    tx.begin(next_id(), restore_mode::restore, thread_number());
    parts_.tracked.begun();
    return tx;
  } catch (...) {
    right.give();
    throw;
  }
}

std::vector<std::uint64_t> transaction_table::open_ids() const {
  const std::scoped_lock lock(list_mutex_);
  std::vector<std::uint64_t> ids;
  for_each_open([&](const transaction_state& tx) { ids.push_back(tx.id()); });
  std::ranges::sort(ids);
  return ids;
}

std::vector<open_transaction> transaction_table::describe_open(const region_state* in) const {
  const std::scoped_lock lock(list_mutex_);
  std::vector<open_transaction> all;
  for_each_open([&](const transaction_state& tx) {
    if (in != nullptr && !tx.uses(*in)) return;
    const open_transaction seen = tx.describe();
    if (tx.is_open() && tx.id() == seen.id) all.push_back(seen);  // otherwise it ended meanwhile
  });
  return all;
}

void transaction_table::add_to(statistics& s) const {
  const std::scoped_lock lock(list_mutex_);
  s.begun = last_id_;
  for_each([&](const transaction_state& tx) {
    const auto& t = tx.all_committed();
    const std::uint64_t ranges = t.ranges_declared.get(), bytes = t.bytes_declared.get();
    s.flush_commits += t.flush_commits.get();
    s.no_flush_commits += t.no_flush_commits.get();
    s.ranges_declared += ranges;
    s.bytes_declared += bytes;
    // Other threads commit meanwhile.
    s.intra_ranges_saved += ranges - std::min(ranges, t.ranges_merged.get());
    s.intra_bytes_saved += bytes - std::min(bytes, t.bytes_merged.get());
  });
}

void transaction_table::outlive(const std::shared_ptr<void>& memory) {
  const std::scoped_lock lock(list_mutex_);
  for_each_open([&](transaction_state& tx) { tx.keep(memory); });
}

void transaction_table::check() const {
  const std::scoped_lock lock(list_mutex_);
  for_each([&](const transaction_state& tx) {
    if (tx.is_open()) tx.check();
    require_invariant(tx.id() <= last_id_, "ids are given out in order");
  });
}

std::size_t transaction_table::users_of(const region_state& what) const {
  const std::scoped_lock lock(list_mutex_);
  std::size_t users = 0;
  for_each_open([&](const transaction_state& tx) { users += tx.uses(what); });
  return users;
}

page_set transaction_table::referenced_pages() {
  page_set pages;
  {
    const std::scoped_lock lock(list_mutex_);
    for_each_open([&](transaction_state& tx) { tx.add_touched_to(pages); });
  }
  pages.sort();
  return pages;
}

transaction_table::own_transactions transaction_table::find_own() const {
  const std::scoped_lock lock(list_mutex_);
  own_transactions own;
  for_each_open([&](transaction_state& tx) {
    if (tx.thread() != thread_number()) return;
    ++own.count;
    if (own.newest == nullptr || own.newest->id() < tx.id()) own.newest = &tx;
  });
  return own;
}

// Mostly the transaction is the explicit one that the thread began last, which is found without the lock. If an automatic one
// is newer, either may have the range: both are of this thread.
void transaction_table::declare_store(region_state& in, std::byte* at, std::size_t length,
                                      write_barriers how) noexcept {
  if (own_stores::are_made()) return;
  assert(in.tracker == nullptr && length != 0);
  const own_stores unannounced;
  const used_before<explicit_transaction>& last = hint<explicit_transaction>;
  if (how != write_barriers::checking && last.memory == parts_.of.number() && last.transaction->is_open() &&
      last.transaction->thread() == thread_number())
    return last.transaction->set_range(at, length);
  const own_transactions own = find_own();
  if (own.newest != nullptr) own.newest->set_range(at, length);
  if (how != write_barriers::checking || own.count == 1) return;
  const std::scoped_lock lock(list_mutex_);
  if (has_misplaced_) return;
  const std::uint64_t offset = in.offset + static_cast<std::uint64_t>(at - in.base);
  misplaced_ = in.segment_path + ": a store to the bytes from offset " + std::to_string(offset) + " on, length " +
               std::to_string(length) + ", came from a thread that has " +
               (own.count == 0 ? "no open transaction, and is not logged; begin one before it"
                               : std::to_string(own.count) +
                                     " open transactions, and was declared in the newest; end the others before it");
  has_misplaced_ = true;
}

void transaction_table::require_declared_stores() {
  if (!has_misplaced_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(list_mutex_);
  if (has_misplaced_.exchange(false)) throw error(errc::undeclared_write, std::exchange(misplaced_, {}));
}

}  // namespace tenure::rvm
