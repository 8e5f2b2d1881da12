// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// From commit to durable log: the order of commits, the spool of no_flush commits, and group commit.
//
// Commits are copied into the open batch under one lock, the commit lock, which orders them. A thread that needs
// durability, and finds no other thread writing, becomes the leader. It closes the batch and writes it with one sync
// for all threads that wait, while other threads fill the next batch. One batch is being written at a time
// [rvm.log.one-in-flight].
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include <tenure/rvm/commit.hpp>

#include "log/counters.hpp"
#include "log/durable_log.hpp"
#include "records/batch.hpp"
#include "records/commit_gathering.hpp"
#include "records/page_queue.hpp"
#include "records/thresholds.hpp"

namespace tenure::rvm {

// A transaction that wants to commit. Its functions are called with the commit lock held.
class commit_source {
 public:
  // Decides what will be logged. It may throw; then nothing has happened. The values are read after it returns, before
  // the lock is released.
  virtual commit_image prepare(bool lazy) = 0;
  virtual void undo_prepare() noexcept = 0;
  [[nodiscard]] virtual std::span<const page_ref> pages() const = 0;
  // The values are captured.
  virtual void captured() noexcept = 0;

 protected:
  ~commit_source() = default;
};

class log_writer {
 public:
  // `background`: a thread writes full batches before other threads wait for them.
  log_writer(durable_log& log, log_space& space, page_queue& queue, counters& count, const thresholds& limits,
             std::uint64_t spool_limit, bool background);
  ~log_writer();
  log_writer(const log_writer&) = delete;
  log_writer& operator=(const log_writer&) = delete;

  // Commits, and returns the commit's position among batches. If `mode` is flush, the commit is durable on return.
  ticket commit(commit_source& source, commit_mode mode);
  // Commits without waiting: on return the order is fixed and the values are captured.
  ticket capture(commit_source& source, commit_mode mode);
  // Logs what the source would commit, as prepared, durably, with all that was committed before. Until it commits, or is aborted, no
  // other source can commit anything: errc::in_doubt. If there is nothing to commit, what was committed before is durable all the
  // same.
  void prepare(commit_source& source, std::string_view global_id);
  // Logs durably that the transaction was aborted, if it is the one that is prepared.
  void abort_prepared(std::uint64_t transaction);
  [[nodiscard]] ticket last_commit() const;
  void wait(ticket until);
  [[nodiscard]] bool is_durable(ticket until) const;

  // Makes every later commit and wait throw this. The first reason stays.
  void fail(const error& why);
  [[nodiscard]] bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  // Throws if fail() was called.
  void require_usable() const;

  void set_spool_limit(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t spooled() const;
  // Stops the background thread. Spooled commits stay.
  void stop();
  // Runs f with the commit lock held.
  void with_commits_stopped(const std::function<void()>& f);
  // Runs f with the commit lock held while no batch is being written. The spool was written before, and nothing is
  // committed or logged meanwhile.
  void with_log_idle(const std::function<void()>& f);
  // Writes what was committed. Every later commit throws `why`: it would come too late [rvm.close.late].
  void finish(const error& why);
  // Throws if an invariant does not hold.
  void check() const;

 private:
  using guard = std::unique_lock<std::mutex>;

  void require_usable(const guard&) const;
  void note_failure(const guard&, const error& why) noexcept;
  // May return with the lock held or without it.
  void wait_until_durable(guard& lock, std::uint64_t number);
  void wait_for_spool(guard& lock);
  std::uint64_t capture(guard& lock, commit_source& source, commit_mode mode);
  void require_not_prepared(const guard&, const commit_image& image) const;
  // Whether the log's files have space for it. If not, the source's work is undone, and they grow, without the lock.
  bool has_space(guard& lock, commit_source& source, const commit_image& image, std::uint64_t needed);
  // The batch that takes so many bytes more, and is within the limit then, unless it is empty.
  batch& open_batch(const guard& lock, std::uint64_t needed, std::uint64_t limit);
  // Appends to it what f appends.
  template <class F>
  void append(batch& to, F&& f);
  [[nodiscard]] std::uint64_t batch_limit() const;
  // Of the last batch that has anything.
  [[nodiscard]] std::uint64_t last_number(const guard&) const { return next_number_ - (open_.empty() ? 1 : 0); }
  class role;
  template <class F>
  void when_idle(F&& f);
  void end_turn(const guard& lock) noexcept;
  // Writes the oldest batch. The caller has the writer's role. Returns false if there is none, or if writing failed.
  bool write_next(guard& lock);
  void write(batch& b);
  void grow(guard& lock, std::uint64_t needed, std::uint64_t payload);
  void seal(const guard&) noexcept;
  void seal_full(const guard&) noexcept;
  void wait_for_commits(guard& lock);
  void run();

  durable_log& log_;
  log_space& space_;
  page_queue& queue_;
  counters& count_;
  const std::uint64_t largest_batch_;
  group_pool pool_;

  mutable std::mutex mutex_;         // the commit lock; guards all below
  std::condition_variable changed_;  // notified when a writer's turn has ended, or when there is more room
  // Counts the writers' turns. Threads that wait for a batch wait on it. When their batch is durable they continue
  // without the lock, for which they would queue.
  std::atomic<std::uint32_t> turns_{0};
  std::condition_variable
      full_;               // for the background thread: notified when a batch is full, or when the thread must stop
  std::list<batch> open_;  // one, or none
  std::list<batch> sealed_;
  bool writing_ = false, stopping_ = false;
  std::uint64_t next_number_ = 1;  // number of the next batch
  std::uint64_t prepared_ = 0;     // id of the transaction that is prepared; 0: none
  std::atomic<std::uint64_t> durable_{0};
  std::uint64_t spooled_ = 0, spool_limit_;
  commit_gathering waiting_;
  const error interrupted_;  // made in advance, because memory may be short later
  std::optional<error> failure_;
  std::atomic<bool> failed_{false};  // whether failure_ is set

  // Used by the writer alone.
  std::uint32_t previous_group_ = 0;           // length on disk
  std::uint32_t batches_without_savings_ = 0;  // batches in which the inter-transaction optimization found nothing

  std::thread thread_;
};

}  // namespace tenure::rvm
