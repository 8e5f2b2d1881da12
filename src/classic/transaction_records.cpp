// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "classic/transaction_records.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <thread>

#include "os/process.hpp"

namespace tenure::classic {

namespace {

struct record_pool {
  std::mutex mutex;
  std::deque<record> all;
  record* spare = nullptr;
  std::deque<user_slot> slots;
  user_slot* spare_slot = nullptr;
};

// Never destroyed, because transactions may end at any time.
record_pool& pool() {
  static record_pool* const only = new record_pool;
  return *only;
}

// Each thread keeps the records that it has released, so that it can begin a transaction without a lock. The pool gets
// them when the thread ends, and the slot. It has no destructor, because destructors that come later may still begin
// transactions: these take and give records without keeping them, and have a slot that nobody gets any more.
class spare_records {
 public:
  void end() noexcept {
    is_over_ = true;
    known_slot = nullptr;
    record_pool& p = pool();
    const std::scoped_lock lock(p.mutex);
    while (first_ != nullptr) {
      record* const next = first_->next_spare;
      first_->next_spare = p.spare;
      p.spare = first_;
      first_ = next;
    }
    if (slot_ == nullptr) return;
    slot_->next_spare = p.spare_slot;
    p.spare_slot = slot_;
  }

  user_slot& slot() {
    record_pool& p = pool();
    const std::scoped_lock lock(p.mutex);
    if (p.spare_slot == nullptr) return *(slot_ = &p.slots.emplace_back());
    slot_ = p.spare_slot;
    p.spare_slot = slot_->next_spare;
    return *slot_;
  }

  record& take() {
    if (record* const r = first_; r != nullptr) {
      first_ = r->next_spare;
      return *r;
    }
    record_pool& p = pool();
    const std::scoped_lock lock(p.mutex);
    if (p.spare == nullptr) return p.all.emplace_back();
    record* const r = p.spare;
    p.spare = r->next_spare;
    return *r;
  }
  void give(record& r) noexcept {
    if (is_over_) {
      record_pool& p = pool();
      const std::scoped_lock lock(p.mutex);
      r.next_spare = p.spare;
      p.spare = &r;
      return;
    }
    r.next_spare = first_;
    first_ = &r;
  }

 private:
  record* first_ = nullptr;
  user_slot* slot_ = nullptr;
  bool is_over_ = false;
};

constinit thread_local spare_records my_spare;

struct end_of_thread {
  ~end_of_thread() { my_spare.end(); }
};

// Names count from the time at which the first one was requested.
std::int64_t first_second() noexcept {
  static const std::int64_t second = std::max<std::int64_t>(os::wall_clock_ns() / 1'000'000'000, 1);
  return second;
}

}  // namespace

timeval name_of(std::uint64_t id) noexcept {
  constexpr std::uint64_t million = 1'000'000;
  return {static_cast<time_t>(first_second() + static_cast<std::int64_t>(id / million)),
          static_cast<suseconds_t>(id % million)};
}

// The slot of my_spare. Reading it needs no check that my_spare has been made.
constinit thread_local user_slot* known_slot = nullptr;

user_slot& make_slot() {
  static thread_local const end_of_thread end;  // the first call of a thread makes it
  return *(known_slot = &my_spare.slot());
}

tid_claim::tid_claim(const rvm_tid_t* tid) noexcept
    : flag_([tid]() -> std::atomic_flag& {
        static constinit std::array<std::atomic_flag, 64> flags{};
        return flags[reinterpret_cast<std::uintptr_t>(tid) / sizeof(rvm_tid_t) % flags.size()];
      }()) {
  while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
}

void record_use::take_from_owner(record& which) noexcept {
  slot_->in_use.store(used_before_, std::memory_order_release);
  while (which.busy.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  while (!os::heavy_fence()) {
  }
  const user_slot* const owner = which.owner.load(std::memory_order_relaxed);
  while (owner != nullptr && owner != slot_ && owner->in_use.load(std::memory_order_acquire) == &which)
    std::this_thread::yield();
}

void record_use::own(record& which) noexcept {
  user_slot& mine = my_slot();
  if (which.owner.load(std::memory_order_relaxed) == &mine) return;
  record_use use(nullptr);
  use.take(which, mine);
  if (!use.as_owner_) which.owner.store(use.slot_, std::memory_order_relaxed);  // `busy` publishes it
}

void record_use::release(rvm_tid_t& tid) noexcept {
  tid_fields(tid).clear();
  record& r = *record_;
  r.id.store(0, std::memory_order_relaxed);
  let_go();
  my_spare.give(r);
}

record& take_record() {
  (void)my_slot();  // first: it may throw
  record& r = my_spare.take();
  record_use::own(r);
  return r;
}

void give_record_back(record& unused) noexcept { my_spare.give(unused); }

std::vector<rvm_tid_t> open_tids(const std::vector<rvm::open_transaction>& open) {
  std::vector<rvm_tid_t> tids;
  record_pool& p = pool();
  const std::scoped_lock lock(p.mutex);
  for (record& r : p.all) {
    const std::uint64_t id = r.id.load(std::memory_order_relaxed);
    if (id == 0 || std::ranges::find(open, id, &rvm::open_transaction::id) == open.end()) continue;
    rvm_tid_t tid;
    rvm_init_tid(&tid);
    tid.uname = name_of(id);
    tid.tid = &r;
    tids.push_back(tid);
  }
  return tids;
}

void add_range_lengths(rvm_length_t* sums) {
  record_pool& p = pool();
  const std::scoped_lock lock(p.mutex);
  for (const record& r : p.all)
    for (std::size_t i = 0; i < range_lengths_len; ++i) sums[i] += r.range_lengths[i].load(std::memory_order_relaxed);
}

}  // namespace tenure::classic
