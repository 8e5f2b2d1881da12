// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Garbage collection of an open store, by a thread of its own. A cycle:
//   1. Between two transactions, with the births locked, a snapshot of what the program refers to begins (root_snapshot.hpp).
//      From now on commits say which references they take away, and new objects count as marked.
//   2. The committed objects to which the roots lead are marked, some at a time, beside transactions: a commit waits for the end
//      of a slice [heap.collection.slices].
//   3. What is not marked was garbage at the beginning, so it is garbage still. It is swept (sweep.hpp), and nothing is made there
//      until the next cycle has found that nothing leads there (quarantined_objects.hpp).
//   4. If it is asked for, objects leave mostly empty blocks (evacuator.hpp).
//
// The order of locks: the access lock; the gate; the lock of births.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include <tenure/rvm.hpp>
#include <tenure/store/collection.hpp>

#include "collection/marker.hpp"
#include "collection/root_snapshot.hpp"
#include "objects/granule_bits.hpp"
#include "store/quarantined_objects.hpp"

namespace tenure {

class evacuator;
struct store_state;

class collector {
 public:
  explicit collector(store_state& of);
  ~collector() { stop(); }
  collector(const collector&) = delete;
  collector& operator=(const collector&) = delete;

  // Runs a cycle, and waits for it. Any thread without a transaction.
  collect_report collect(const collection_options& how);
  // A commit has made objects of so many bytes: perhaps it is time for a cycle. May be called by any thread.
  void made(std::uint64_t bytes) noexcept;
  // Of objects of so many bytes, as the last cycle lets one expect. Any thread.
  [[nodiscard]] std::uint64_t estimate_garbage(std::uint64_t bytes) const noexcept;
  [[nodiscard]] const quarantined_objects& in_quarantine() const { return quarantined_; }
  // Throws errc::bad_transaction in a callback of a collection.
  void require_other_thread(const char* what) const;
  // No cycle goes on while somebody has it: whoever adds a database.
  [[nodiscard]] std::unique_lock<std::mutex> pause() { return std::unique_lock(cycles_); }
  // Ends what goes on. The next collect() begins anew; commits begin nothing before go_on().
  void stop() noexcept;
  void go_on() noexcept;

  // Held by the writer while it changes the committed objects and the bookkeeping. Empty if nobody collects.
  using gate_lock = std::unique_lock<std::mutex>;
  [[nodiscard]] gate_lock pass_gate();
  // A weak reference leads to this object, and somebody may keep it from now on. Returns it; nullptr if it is garbage that the
  // cycle is about to take [heap.weak.lock]. Whoever reads or writes.
  [[nodiscard]] void* keep(void* object);
  // The cycle takes this persistent object, or has taken it. The writer, before it has the gate.
  [[nodiscard]] bool is_taking(const void* object);
  // Gives the gate up while marking goes on: the writer does what takes long, and changes no bookkeeping.
  void let_mark(gate_lock& gate);
  // With the gate: what the transaction has changed.
  void note_overwritten(const rvm::transaction& tx, std::span<const rvm::memory_range> changes);
  // With the gate: what it has destroyed, which is there for the last time.
  void note_destroyed();
  // With the gate: cells that become persistent, which the marker may have followed when they were transient.
  void note_cells(std::span<const heap::address> promoted);
  // As is_taking(), with the gate.
  [[nodiscard]] bool takes(const void* object) const;
  // With the gate: the same changes, when they and new objects are about to be committed.
  void note_written(const rvm::transaction& tx, std::span<const rvm::memory_range> changes);
  // What is about to be put back.
  void note_abort(rvm::transaction& tx) noexcept;
  // Around the beginning of a transaction, which takes stray writes back: nobody says what the marker has seen instead.
  class stray_write_watch {
   public:
    explicit stray_write_watch(collector& of);
    ~stray_write_watch();
    stray_write_watch(const stray_write_watch&) = delete;
    stray_write_watch& operator=(const stray_write_watch&) = delete;

   private:
    collector& of_;
    const bool is_needed_;  // cycles begin while no transaction does
    const std::uint64_t before_;
  };

 private:
  struct cycle;
  struct request {
    const collection_options& how;
    std::optional<collect_report> done = {};
    std::exception_ptr failed = {};
    [[nodiscard]] bool is_over() const { return done.has_value() || failed != nullptr; }
  };

  void start_thread();
  [[nodiscard]] gate_lock lock_gate(int busy_tries);
  void run();
  collect_report run_cycle(const collection_options& how);
  void begin_cycle(cycle& in, const collection_options& how);
  void mark(cycle& in, const collection_options& how);
  void confirm_quarantine(cycle& in);
  void end_cycle(cycle& in) noexcept;
  void clear_weak_references(cycle& in, const collection_options& how);
  void sweep_all(cycle& in, const collection_options& how);
  void evacuate(cycle& in, const collection_options& how);
  void sweep_transients(cycle& in, const collection_options& how);
  void require_going_on() const;
  void count(const collect_report& done);
  void count_put_off();
  [[nodiscard]] error is_being_closed() const;

  store_state& of_;

  std::mutex mutex_;
  std::condition_variable wanted_, over_;
  std::deque<request*> requests_;
  bool is_due_ = false;  // an automatic cycle
  std::atomic<bool> stopping_{false};
  std::thread thread_;
  std::atomic<std::thread::id> runs_in_{};

  std::mutex cycles_;  // before the access lock
  quarantined_objects quarantined_;
  std::mutex gate_;
  std::atomic<std::uint32_t> at_gate_{0};      // writers that wait there
  std::atomic<std::uint64_t> passed_gate_{0};  // how often one has come there while somebody collected
  std::atomic<bool> is_collecting_{false};
  heap::marker* marker_ = nullptr;   // while it marks; with the gate
  const cycle* decided_ = nullptr;   // from then on, if it destroys what is not marked; with the gate
  evacuator* evacuating_ = nullptr;  // with the gate
  bool is_broken_ = false;           // something that a commit would have said is not known; with the gate

  std::atomic<std::uint64_t> made_{0};    // bytes that have become persistent since the last cycle began
  std::atomic<std::uint64_t> wasted_{0};  // how many of 1000 of them were garbage when it looked
  std::atomic<std::uint64_t> due_at_;
};

}  // namespace tenure
