// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/log_writer.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

#include "log/invariant.hpp"
#include "os/thread.hpp"
#include "records/prepared_record.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

namespace {

std::string bytes_text(std::uint64_t n) { return std::to_string(n) + " bytes"; }

}  // namespace

log_writer::log_writer(durable_log& log, log_space& space, page_queue& queue, counters& count, const thresholds& limits,
                       std::uint64_t spool_limit, bool background)
    : log_(log),
      space_(space),
      queue_(queue),
      count_(count),
      largest_batch_(limits.largest_batch),
      pool_(limits.group, limits.buffers_kept),
      spool_limit_(spool_limit),
      interrupted_(errc::outcome_unknown,
                   "memory was too short while the log was written; close this memory and open it again to learn what "
                   "survived") {
  if (background) thread_ = os::begin_thread<std::thread>("writes the log " + log_.path(), [this] { run(); });
}

log_writer::~log_writer() { stop(); }

void log_writer::stop() {
  {
    const guard lock(mutex_);
    stopping_ = true;
    full_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

ticket log_writer::commit(commit_source& source, commit_mode mode) {
  guard lock(mutex_);
  const std::uint64_t number = capture(lock, source, mode);
  if (mode == commit_mode::flush) wait_until_durable(lock, number);
  return {number};
}

ticket log_writer::capture(commit_source& source, commit_mode mode) {
  guard lock(mutex_);
  return {capture(lock, source, mode)};
}

std::uint64_t log_writer::capture(guard& lock, commit_source& source, commit_mode mode) {
  for (;;) {
    require_usable(lock);
    wait_for_spool(lock);
    const commit_image image = source.prepare(mode == commit_mode::no_flush);
    std::uint64_t number = last_number(lock);  // the batch before: an empty commit joins it
    if (!image.is_empty()) {
      const std::uint64_t limit = batch_limit();
      batch* to = nullptr;
      // Before anything of it is logged: others commit before the transaction ends, and would build on what it has prepared.
      try {
        require_not_prepared(lock, image);
        const std::uint64_t needed = batch::bound(image, log_.block(), pool_.group_length());
        if (!has_space(lock, source, image, needed)) continue;  // everything is checked again
        to = &open_batch(lock, needed, limit);
        append(*to, [&] { to->append(image, source.pages()); });
      } catch (...) {
        source.undo_prepare();
        throw;
      }
      number = to->number();
      if (!image.runs.empty()) queue_.mask_until(image.id, number);
      if (image.id == prepared_) {
        prepared_ = 0;
        to->note_outcome();
      }
      if (to->bytes() >= limit) seal_full(lock);
    }
    source.captured();
    return number;
  }
}

std::uint64_t log_writer::batch_limit() const {
  return std::max<std::uint64_t>(std::min({largest_batch_, log_.capacity() / 4, log_.length() / 2}), 4096);
}

batch& log_writer::open_batch(const guard& lock, std::uint64_t needed, std::uint64_t limit) {
  if (!open_.empty()) {
    const batch& so_far = open_.front();
    // Room was left for the outcome of what is prepared, and not for others with it [rvm.prepared.none].
    const bool is_crowded =
        so_far.has_outcome() && so_far.length(log_.block()) + 2 * needed + log_.block() > log_.room();
    if (is_crowded || so_far.bytes() + needed > limit) seal_full(lock);
  }
  if (open_.empty()) open_.emplace_back(next_number_, pool_);
  return open_.front();
}

template <class F>
void log_writer::append(batch& to, F&& f) {
  const std::uint64_t before = to.bytes();
  try {
    f();
  } catch (...) {
    if (to.empty()) open_.clear();
    throw;
  }
  spooled_ += to.bytes() - before;
}

// A commit that was accepted has space in the log's files, so a full disk never stops the log. What does not fit is refused
// before [rvm.log.space].
bool log_writer::has_space(guard& lock, commit_source& source, const commit_image& image, std::uint64_t needed) {
  if (log_.keep(needed)) return true;
  std::uint64_t payload = 0;
  for (const auto& value : image.values) payload += value.length;
  source.undo_prepare();
  grow(lock, needed, payload);
  return false;
}

// [rvm.prepared.alone]
void log_writer::require_not_prepared(const guard&, const commit_image& image) const {
  if (prepared_ == 0 || prepared_ == image.id) return;
  throw error(errc::in_doubt,
              log_.path() + ": transaction " + std::to_string(prepared_) +
                  " is prepared, and nothing else can be committed before its outcome: commit or abort it, "
                  "and then commit this one again");
}

void log_writer::prepare(commit_source& source, std::string_view global_id) {
  require_global_id(global_id);
  guard lock(mutex_);
  for (;;) {
    require_usable(lock);
    const commit_image image = source.prepare(false);
    std::uint64_t number = last_number(lock);  // what was committed before
    try {
      require_not_prepared(lock, image);
      if (!image.is_empty()) {
        const std::uint64_t values = batch::bound(image, log_.block(), pool_.group_length());
        const std::uint64_t needed = values + batch::bound_of_id(global_id, log_.block());
        // The commit must have space, too, and the log's files that have this cannot be used again before.
        if (!has_space(lock, source, image, 2 * (needed + values))) continue;
        batch& to = open_batch(lock, needed, batch_limit());
        append(to, [&] { to.append_prepared(image, global_id); });
        number = to.number();
        prepared_ = image.id;
      }
    } catch (...) {
      source.undo_prepare();
      throw;
    }
    source.undo_prepare();
    return wait_until_durable(lock, number);
  }
}

void log_writer::abort_prepared(std::uint64_t transaction) {
  guard lock(mutex_);
  if (prepared_ != transaction) return;
  require_usable(lock);
  batch& to = open_batch(lock, sizeof(record_header), batch_limit());
  append(to, [&] { to.append_abort(); });
  prepared_ = 0;
  wait_until_durable(lock, to.number());
}

ticket log_writer::last_commit() const {
  const guard lock(mutex_);
  return {last_number(lock)};
}

void log_writer::wait(ticket until) {
  guard lock(mutex_);
  require_usable(lock);
  wait_until_durable(lock, std::min(until.batch, last_number(lock)));
}

bool log_writer::is_durable(ticket until) const {
  const guard lock(mutex_);
  return until.batch <= durable_;
}

// The right and duty to write. One thread has it at a time.
class log_writer::role {
 public:
  role(log_writer& writer, guard& lock) : writer_(writer), lock_(lock) {
    while (writer_.writing_) writer_.changed_.wait(lock_);
    writer_.writing_ = true;
  }
  ~role() {
    if (!lock_.owns_lock()) lock_.lock();
    writer_.writing_ = false;
    writer_.end_turn(lock_);
  }
  role(const role&) = delete;
  role& operator=(const role&) = delete;

 private:
  log_writer& writer_;
  guard& lock_;
};

void log_writer::wait_until_durable(guard& lock, std::uint64_t number) {
  waiting_.arrive();
  while (durable_ < number) {
    require_usable(lock);
    if (!writing_) {
      const role writer(*this, lock);
      write_next(lock);
      continue;
    }
    const std::uint32_t turn = turns_;  // the turn cannot end before the lock is released
    lock.unlock();
    turns_.wait(turn);
    if (durable_ >= number) return;
    lock.lock();
  }
}

void log_writer::wait_for_spool(guard& lock) {
  while (spooled_ > spool_limit_) {
    require_usable(lock);
    if (writing_) {
      changed_.wait(lock);
    } else {
      const role writer(*this, lock);
      write_next(lock);
    }
  }
}

void log_writer::end_turn(const guard&) noexcept {
  ++turns_;
  turns_.notify_all();
  changed_.notify_all();
}

void log_writer::wait_for_commits(guard& lock) {
  if (waiting_.all_here()) return;
  const auto limit = std::chrono::steady_clock::now() + waiting_.patience();
  lock.unlock();  // the writer's role keeps other threads from changing the number of expected commits
  while (!waiting_.all_here() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  lock.lock();
}

bool log_writer::write_next(guard& lock) {
  assert(writing_);
  if (failure_ || (sealed_.empty() && open_.empty())) return false;
  if (sealed_.empty()) wait_for_commits(lock);
  if (failure_) return false;
  if (sealed_.empty()) seal(lock);
  const std::size_t waited = waiting_.leave();
  const auto began = std::chrono::steady_clock::now();
  std::list<batch> next;
  next.splice(next.begin(), sealed_, sealed_.begin());
  const std::uint64_t bytes = next.front().bytes(), number = next.front().number();
  lock.unlock();
  std::optional<error> failure;
  try {
    write(next.front());
  } catch (const error& e) {
    failure = e;
  } catch (const std::exception&) {  // out of memory
    failure = interrupted_;
  } catch (...) {  // a simulated crash of the storage: whatever is thrown, the batch may be durable or not
    lock.lock();
    note_failure(lock, interrupted_);
    throw;
  }
  lock.lock();
  waiting_.written(waited, std::chrono::steady_clock::now() - began);
  assert(spooled_ >= bytes);
  spooled_ -= bytes;
  if (failure) {
    note_failure(lock, *failure);
    return false;
  }
  assert(number == durable_ + 1);
  durable_ = number;
  if (open_.empty() && sealed_.empty()) log_.let_shrink();
  return true;
}

void log_writer::write(batch& b) {
  const scoped_timer timing(count_.write_ns);
  // Inter-transaction optimization. If it has found nothing for a while, it runs only now and then.
  const bool possible = b.lazy_commits() != 0 && b.commits() > 1;
  if (possible && (batches_without_savings_ < 4 || batches_without_savings_ % 16 == 0)) {
    batch_savings saved;
    try {
      saved = b.drop_overwritten();
    } catch (const std::bad_alloc&) {  // then everything is written
    }
    count_.inter_transactions_saved += saved.transactions;
    count_.inter_bytes_saved += saved.bytes;
    batches_without_savings_ = saved.transactions * 100 < b.commits() ? batches_without_savings_ + 1 : 0;
  } else if (possible) {
    ++batches_without_savings_;
  }
  const std::uint32_t block = log_.block();
  const std::uint64_t length = b.length(block);
  log_.note_use();
  // The outcome of what is prepared must have room behind it: what is there cannot be taken away [rvm.prepared.none].
  const std::optional<std::uint64_t> prepared = b.prepared_at(block);
  space_.make_room(prepared ? length + (length - *prepared) + block : length);
  // The segment notes that this log may have changes for it before the first of them can be in the log
  // [rvm.segment.in-log].
  for (segment* s : b.segments()) try {
      if (!s->is_noted_in_log()) s->note_in_log(log_.id(), log_.path(), log_.window().tail);
    } catch (const error& e) {  // a failed sync is never repeated here either
      throw error(errc::outcome_unknown,
                  std::string("a segment could not be made ready for the log, so the last commits are not durable; "
                              "close this memory and open it again: ") +
                      e.what());
    }

  const log_window window = log_.window();
  const lsn at = window.tail;
  const auto parts = b.finish(log_.stamp(), at, previous_group_);
  bool appended;
  try {
    appended = log_.append(at, parts);
  } catch (const error& e) {
    // Never repeated: after a failed sync the kernel may have dropped the data, and may report success next time
    // [rvm.log.no-retry].
    throw error(
        errc::outcome_unknown,
        std::string(
            "the log could not be written and synced, so it is not known which of the last commits are durable; "
            "close this memory and open it again to find out: ") +
            e.what());
  }
  if (!appended) throw error(errc::in_use, log_.path() + ": somebody else has written to this log; close this memory");
  previous_group_ = b.last_group_length(block);
  if (prepared)
    queue_.keep_from(at + *prepared);
  else if (b.has_outcome())
    queue_.keep_nothing();
  queue_.publish(b, at, at + length, at + length - previous_group_);
  ++count_.batches;
  count_.log_bytes_written += length;
  count_.log_used_max.raise_to(log_.window().used());
  count_.ranges_logged += b.ranges();
  count_.bytes_logged += b.payload();
  space_.appended();
  b.recycle();
}

void log_writer::grow(guard& lock, std::uint64_t needed, std::uint64_t payload) {
  if (needed > log_.max_capacity())
    throw error(errc::too_big, "the transaction changes " + bytes_text(payload) + " and needs " + bytes_text(needed) +
                                   " of log, but the log has " + bytes_text(log_.capacity()) + " and may grow to " +
                                   bytes_text(log_.max_capacity()) +
                                   "; split it, or make the log with a larger max_size");
  const role writer(*this, lock);
  require_usable(lock);
  lock.unlock();
  const bool is_unusual = needed > log_.capacity();
  try {
    log_.note_use();
    while (log_.extend(needed)) {
    }
  } catch (const error& e) {
    if (e.code() != errc::outcome_unknown) throw;
    lock.lock();
    note_failure(lock, e);
    throw;
  }
  if (is_unusual) ++count_.log_grown;
}

template <class F>
void log_writer::when_idle(F&& f) {
  guard lock(mutex_);
  const role writer(*this, lock);
  while (write_next(lock)) {
  }
  require_usable(lock);
  f(lock);
}

void log_writer::with_log_idle(const std::function<void()>& f) {
  when_idle([&](const guard&) { f(); });
}

void log_writer::finish(const error& why) {
  when_idle([&](const guard& lock) { note_failure(lock, why); });
}

void log_writer::with_commits_stopped(const std::function<void()>& f) {
  const guard lock(mutex_);
  f();
}

// Needs no memory: what the batch has is committed already, and another commit must not fail because of that.
void log_writer::seal(const guard&) noexcept {
  sealed_.splice(sealed_.end(), open_);
  ++next_number_;
}

void log_writer::seal_full(const guard& lock) noexcept {
  seal(lock);
  full_.notify_one();
}

void log_writer::run() {
  guard lock(mutex_);
  for (;;) {
    // Writes only full batches. The thread that waits for an open batch writes it.
    full_.wait(lock, [&] { return stopping_ || (!sealed_.empty() && !failure_); });
    if (stopping_) return;
    try {
      const role writer(*this, lock);
      if (!sealed_.empty()) write_next(lock);
    } catch (...) {
      // Recorded in failure_; the next commit reports it.
    }
  }
}

void log_writer::fail(const error& why) {
  const guard lock(mutex_);
  note_failure(lock, why);
  end_turn(lock);
}

void log_writer::require_usable() const {
  if (!failed_.load(std::memory_order_acquire)) return;  // without the lock: every begin asks
  const guard lock(mutex_);
  require_usable(lock);
}
void log_writer::note_failure(const guard&, const error& why) noexcept {
  if (!failure_) failure_ = why;
  failed_.store(true, std::memory_order_release);
}
void log_writer::require_usable(const guard&) const {
  if (failure_) throw error(*failure_);
}

void log_writer::set_spool_limit(std::uint64_t bytes) {
  const guard lock(mutex_);
  spool_limit_ = bytes;
  changed_.notify_all();
}

std::uint64_t log_writer::spooled() const {
  const guard lock(mutex_);
  return spooled_;
}

void log_writer::check() const {
  const guard lock(mutex_);
  pool_.check();
  waiting_.check();
  for (const batch& b : open_) b.check();
  std::uint64_t number = durable_ + 1 + (writing_ ? 1 : 0), bytes = 0;
  for (const batch& b : sealed_) {
    b.check();
    require_invariant(failure_ || b.number() == number || b.number() == number - 1, "batches wait in order");
    number = b.number() + 1;
    bytes += b.bytes();
  }
  require_invariant(open_.empty() || open_.front().number() == next_number_, "the open batch is the newest");
  for (const batch& b : open_) bytes += b.bytes();
  require_invariant(failure_ || bytes <= spooled_, "what waits is counted");
  require_invariant(failure_ || writing_ || bytes == spooled_, "nothing else is counted");
  require_invariant(durable_ < next_number_, "only batches that were sealed are durable");
}

}  // namespace tenure::rvm
