// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// From commit to durable log: the order of commits, the spool of no_flush commits, and group commit.
//
// Commits are copied into the open batch under one lock, the commit lock, which is what orders them. Whoever needs
// durability and finds nobody writing becomes the leader: it seals the batch and writes it with one sync for all who wait,
// while others fill the next one. One batch is being written at a time [rvm.log.one-in-flight].
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
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
  // Settles what is to be logged; may throw, and then nothing has happened. Values are read when this has returned, before
  // the lock is let go.
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
  // `background`: a thread writes batches that are full before anybody waits for them.
  log_writer(durable_log& log, log_space& space, page_queue& queue, counters& count, const thresholds& limits,
             std::uint64_t spool_limit, bool background);
  ~log_writer();
  log_writer(const log_writer&) = delete;
  log_writer& operator=(const log_writer&) = delete;

  // The commit's position among batches. Durable on return if `mode` is flush.
  ticket commit(commit_source& source, commit_mode mode);
  // The same without the wait: the order is settled, and the values are captured.
  ticket capture(commit_source& source, commit_mode mode);
  [[nodiscard]] ticket last_commit() const;
  void wait(ticket until);
  [[nodiscard]] bool is_durable(ticket until) const;

  // From now on every commit and wait throws this. The first reason stays.
  void fail(const error& why);
  // Throws if fail() was called.
  void require_usable() const;

  void set_spool_limit(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t spooled() const;
  // Stops the background thread; what is spooled stays.
  void stop();
  // Runs f with the commit lock held.
  void between_commits(const std::function<void()>& f);
  // Runs f with the commit lock held and no batch being written: nothing is committed or logged meanwhile. What is spooled
  // has been written.
  void with_log_idle(const std::function<void()>& f);

 private:
  using guard = std::unique_lock<std::mutex>;

  void require_usable(const guard&) const;
  void note_failure(const guard&, const error& why) noexcept;
  // Returns with the lock or without it.
  void wait_until_durable(guard& lock, std::uint64_t number);
  void wait_for_spool(guard& lock);
  std::uint64_t capture(guard& lock, commit_source& source, commit_mode mode);
  class role;
  void end_turn(const guard& lock) noexcept;
  // Writes the oldest batch; the caller has the writer's role. False if there is none, or it failed.
  bool write_next(guard& lock);
  void write(batch& b);
  void grow(guard& lock, std::uint64_t needed, std::uint64_t payload);
  void seal(const guard&);
  void seal_full(const guard&);
  void wait_for_commits(guard& lock);
  void run();

  durable_log& log_;
  log_space& space_;
  page_queue& queue_;
  counters& count_;
  const std::uint64_t largest_batch_;
  group_pool pool_;

  mutable std::mutex mutex_;         // the commit lock; guards all below
  std::condition_variable changed_;  // a writer's turn has ended, or there is more room
  // Counts the turns; for who waits for a batch. All whose batch is durable go on without the lock, for which they would
  // queue.
  std::atomic<std::uint32_t> turns_{0};
  std::condition_variable full_;  // for the background: a batch is sealed, or it is to stop
  std::unique_ptr<batch> open_;
  std::deque<std::unique_ptr<batch>> sealed_;
  bool writing_ = false, stopping_ = false;
  std::uint64_t next_number_ = 1;  // of batches
  std::atomic<std::uint64_t> durable_{0};
  std::uint64_t spooled_ = 0, spool_limit_;
  commit_gathering waiting_;
  const error interrupted_;  // made before memory is short
  std::optional<error> failure_;
  std::atomic<bool> failed_{false};  // whether failure_ is set

  // Of the writer alone.
  std::uint32_t previous_group_ = 0;           // length on disk
  std::uint32_t batches_without_savings_ = 0;  // batches in which the inter-transaction optimization found nothing

  std::thread thread_;
};

}  // namespace tenure::rvm
