// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The records behind rvm_tid_t. A tid points to its record, and has the name of the transaction for which it was begun.
// Records are reused and never freed. So a stale tid, or a copy of one, leads to a record with another name or with
// none, and is refused [classic.tid.stale].
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include <tenure/rvm.hpp>

#include <rvm/rvm.h>
#include <rvm/rvm_statistics.h>

#include "os/asymmetric_fence.hpp"

namespace tenure::classic {

struct record;

// A thread that owns records. It is never freed; another thread gets it later.
struct user_slot {
  std::atomic<record*> in_use{nullptr};
  user_slot* next_spare = nullptr;
};

// Calls that use the same transaction exclude each other. Mostly the thread that began the transaction makes all calls,
// so it owns the record and only notes in its slot that it is using it. Other threads set `busy`, make a heavy fence,
// and check whether the owner is using it [classic.tid.exclusive]. A flag that every thread exchanges would be a locked
// instruction for every call.
struct record {
  std::atomic<user_slot*> owner{nullptr};  // changed by a thread that has `busy`, while no thread uses the record
  std::atomic<bool> busy{false};           // a thread other than the owner uses the record, or wants to
  std::atomic<std::uint64_t> id{0};        // of the transaction; 0: there is none
  timeval name{};                          // of the transaction; written before `id`
  rvm::transaction transaction;
  // The lengths that all transactions with this record have declared: bin i counts lengths up to 16 << i. Written by
  // one thread at a time.
  std::array<std::atomic<std::uint64_t>, range_lengths_len> range_lengths{};
  record* next_spare = nullptr;
};

// The name of a transaction. It is unique in the process and has the form of a time.
[[nodiscard]] timeval name_of(std::uint64_t id) noexcept;

// What a tid says, which several threads may read and write at a time.
class tid_fields {
 public:
  explicit tid_fields(const rvm_tid_t& tid) noexcept : tid_(const_cast<rvm_tid_t&>(tid)) {}
  [[nodiscard]] record* transaction() const noexcept {
    return static_cast<record*>(std::atomic_ref(tid_.tid).load(std::memory_order_acquire));
  }
  [[nodiscard]] bool has_name(const timeval& name) const noexcept {
    return std::atomic_ref(tid_.uname.tv_sec).load(std::memory_order_relaxed) == name.tv_sec &&
           std::atomic_ref(tid_.uname.tv_usec).load(std::memory_order_relaxed) == name.tv_usec;
  }
  void set(record& of, const timeval& name) const noexcept {
    std::atomic_ref(tid_.uname.tv_sec).store(name.tv_sec, std::memory_order_relaxed);
    std::atomic_ref(tid_.uname.tv_usec).store(name.tv_usec, std::memory_order_relaxed);
    std::atomic_ref(tid_.tid).store(&of, std::memory_order_release);
  }
  void clear() const noexcept { std::atomic_ref(tid_.tid).store(nullptr, std::memory_order_release); }

 private:
  rvm_tid_t& tid_;
};

// While it exists, no other thread begins a transaction with the same rvm_tid_t. By its address: a copy is another one.
class tid_claim {
 public:
  explicit tid_claim(const rvm_tid_t* tid) noexcept;
  ~tid_claim() { flag_.clear(std::memory_order_release); }
  tid_claim(const tid_claim&) = delete;
  tid_claim& operator=(const tid_claim&) = delete;

 private:
  std::atomic_flag& flag_;
};

// The slot of the calling thread; nullptr until make_slot().
extern constinit thread_local user_slot* known_slot;
user_slot& make_slot();
inline user_slot& my_slot() { return known_slot != nullptr ? *known_slot : make_slot(); }

// Uses a record for the duration of a call. A second thread with the same tid waits.
class record_use {
 public:
  // The open transaction of a tid. Converts to false if there is none (RVM_ETID).
  explicit record_use(const rvm_tid_t* tid) noexcept {
    if (tid == nullptr || tid->struct_id != rvm_tid_id) return;
    const tid_fields fields(*tid);
    record* const r = fields.transaction();
    if (r == nullptr) return;
    take(*r, my_slot());
    if (r->id.load(std::memory_order_acquire) == 0 || !fields.has_name(r->name)) let_go();
  }
  ~record_use() {
    if (record_ != nullptr) let_go();
  }
  record_use(const record_use&) = delete;
  record_use& operator=(const record_use&) = delete;

  explicit operator bool() const noexcept { return record_ != nullptr; }
  [[nodiscard]] rvm::transaction& transaction() const noexcept { return record_->transaction; }
  void count_range(rvm_length_t length) noexcept {
    // Bins are powers of two from 16 on.
    const auto above = static_cast<int>(std::bit_width((length == 0 ? 0 : length - 1) / 16));
    auto& bin = record_->range_lengths[static_cast<std::size_t>(std::min<int>(above, range_lengths_len - 1))];
    bin.store(bin.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // The transaction has ended: the record goes back to the pool.
  void release(rvm_tid_t& tid) noexcept;

 private:
  friend record& take_record();
  // The calling thread owns the record from now on.
  static void own(record& which) noexcept;
  void take(record& which, user_slot& mine) noexcept {
    slot_ = &mine;
    used_before_ = slot_->in_use.load(std::memory_order_relaxed);
    record_ = &which;
    slot_->in_use.store(&which, std::memory_order_relaxed);
    os::light_fence();
    as_owner_ = !which.busy.load(std::memory_order_acquire) && which.owner.load(std::memory_order_relaxed) == slot_;
    if (!as_owner_) [[unlikely]]
      take_from_owner(which);
  }
  void take_from_owner(record& which) noexcept;
  void let_go() noexcept {
    if (as_owner_)
      slot_->in_use.store(used_before_, std::memory_order_release);
    else
      record_->busy.store(false, std::memory_order_release);
    record_ = nullptr;
  }

  record* record_ = nullptr;
  user_slot* slot_ = nullptr;      // the thread's
  record* used_before_ = nullptr;  // by the same thread, around this call
  bool as_owner_ = false;
};

// A record for a new transaction, which the calling thread owns from now on; and back, if none was begun with it.
[[nodiscard]] record& take_record();
void give_record_back(record& unused) noexcept;

// The identities of transactions that the program has begun.
[[nodiscard]] std::vector<rvm_tid_t> open_tids(const std::vector<rvm::open_transaction>& open);

// Adds up the lengths that all records have counted.
void add_range_lengths(rvm_length_t* sums);

}  // namespace tenure::classic
