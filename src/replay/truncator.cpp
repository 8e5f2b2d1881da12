// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/truncator.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "os/cleared_memory.hpp"
#include "os/thread.hpp"
#include "records/log_reader.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

truncator::truncator(durable_log& log, page_queue& queue, counters& count, truncation_host& host,
                     const truncator_settings& how)
    : log_(log),
      queue_(queue),
      count_(count),
      host_(host),
      how_(how),
      pages_at_once_(std::max<std::size_t>(how.value_bytes / (2 * redo_page), how.fewest_pages)),
      threshold_(how.threshold) {
  if (how_.archive != nullptr) archive_.emplace(*how_.archive, log_, how_.background);
  if (how_.background)
    thread_ = os::begin_thread<std::jthread>("truncates the log " + log_.path(),
                                             [this](const std::stop_token& stop) { run(stop); });
}

truncator::~truncator() { stop(); }

void truncator::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  if (archive_) archive_->stop();
}

segment_resolver truncator::resolver() {
  return [this](const segment_name& name) { return host_.find_segment(name); };
}

void truncator::require_usable() const {
  if (failure_) throw error(*failure_);
}

void truncator::note_failure(const error& why) {
  if (why.code() != errc::outcome_unknown) return;
  failure_ = why;
  host_.storage_failed(why);
}

// If the step fails, the pages are dirty as before. A failed sync makes the whole memory fail. Nobody knows then what
// the kernel still holds of the segment, but the log has it all, and opening again repeats it [rvm.log.no-retry].
truncator::progress truncator::step(lsn until, bool even_referenced) {
  require_usable();
  const scoped_timer timing(count_.truncation_ns);
  const auto take = [&](std::size_t most) {
    return queue_.take(until, most, even_referenced ? page_set() : host_.referenced_pages());
  };
  page_queue::taken what;
  try {
    redo values(resolver());
    for (bool fits = false; !fits;) {
      // A log that fits into memory as a whole needs no limit.
      const bool all_fits = log_.window().used() <= how_.value_bytes / 4;
      what = take(all_fits ? ~std::size_t{0} : pages_at_once_);
      // A transaction that is about to commit blocks only for a microsecond. It is not worth waiting for a long one.
      for (int tries = 0; what.blocked && what.pages.empty() && tries < 100; ++tries) {
        std::this_thread::yield();
        what = take(pages_at_once_);
      }
      // Even without pages the log may have records of bulk runs, over which the head can move.
      if (what.pages.empty() && (what.blocked || !queue_.can_advance(what.log)))
        return {.blocked = what.blocked, .done = true};
      for (const page_run& run : what.masked) values.mask(*run.in, run.page, run.pages);
      values.restrict();
      for (const dirty_page& page : what.pages) values.restrict_to(*page.in, page.page);
      fits = true;
      if (what.pages.empty()) continue;
      read_backwards(log_, what.log, [&](const group_view& group) {
        values.add(group);
        return fits = values.memory_used() <= how_.value_bytes || what.pages.size() <= how_.fewest_pages;
      });
      if (!all_fits) {
        const double part = static_cast<double>(values.memory_used()) / (static_cast<double>(how_.value_bytes) / 2);
        const auto most = static_cast<std::size_t>(static_cast<double>(what.pages.size()) / std::max(part, 0.25));
        pages_at_once_ = std::max(how_.fewest_pages, fits ? most : what.pages.size() / 4);
      }
      if (!fits) {
        queue_.put_back(what);
        what = {};
        values = redo(resolver());
      }
    }
    if (archive_) archive_->begin(what.log.from, queue_.head_after(what));
    std::vector<recovery_report::segment> report;
    values.set_through(what.log.to);
    try {
      values.apply(report);
    } catch (...) {  // pages found until then are marked, and will not be reported again
      host_.pages_damaged(values.findings().damaged);
      throw;
    }
    host_.pages_damaged(values.findings().damaged);
    for (const auto& s : report)
      count_.pages_written += s.pages, count_.segment_bytes_written += s.pages * redo_page, ++count_.segment_syncs;
    const lsn head = queue_.head_after(what);
    if (archive_) archive_->finish(what.log.from, head);
    log_.free_up_to(head);
    host_.pages_written(what.pages);
    return {.reclaimed = head - what.log.from, .blocked = what.blocked, .done = false};
  } catch (const error& e) {
    queue_.put_back(what);
    note_failure(e);
    throw;
  } catch (...) {
    queue_.put_back(what);
    throw;
  }
}

std::uint64_t truncator::incremental(const guard&, lsn until, outcome& how) {
  std::uint64_t reclaimed = 0;
  for (;;) {
    const progress made = step(until, false);
    if (made.blocked) ++count_.truncation_blocked;
    if (!made.done) ++count_.incremental_truncations;
    count_.incremental_bytes_reclaimed += made.reclaimed;
    reclaimed += made.reclaimed;
    how = made.blocked ? outcome::blocked : outcome::done;
    if (made.blocked || made.done) return reclaimed;
  }
}

void truncator::epoch(const guard&) {
  const log_part all = queue_.covered();
  if (all.length() == 0) return;
  for (;;) {
    const progress made = step(all.to, true);
    count_.epoch_bytes_reclaimed += made.reclaimed;
    if (made.done) break;
  }
  ++count_.epoch_truncations;
}

void truncator::with_lock(const std::function<void()>& f) {
  const guard lock(mutex_);
  f();
}

void truncator::with_lock_for_bulk(const std::function<void()>& f) {
  const guard lock(mutex_);
  require_usable();
  try {
    log_.require_feature(feature_bulk_runs);
    f();
  } catch (const error& e) {
    note_failure(e);
    throw;
  }
}

void truncator::make_room(std::uint64_t bytes) {
  const auto fits = [&] { return log_.room() >= bytes; };
  if (fits()) return;
  const guard lock(mutex_);
  try {
    try {  // up to its usual size the log takes new space
      while (!fits() && log_.extend(log_.capacity())) {
      }
    } catch (const error& e) {  // a full disk
      if (e.code() == errc::outcome_unknown) throw;
    }
    if (fits()) return;
    ++count_.truncation_waits;
    // A second time, because whoever held the log may have let go of it after the first.
    for (int times = 0; times != 2; ++times) {
      free_room(lock, bytes);
      if (fits()) return;
      if (log_.is_held())
        throw error(errc::log_stuck, log_.path() +
                                         ": a backup or another reader holds what the log could free (`tenure log "
                                         "status` says which), and the log may not grow further");
    }
    throw error(errc::log_stuck, log_.path() + ": " + std::to_string(bytes) +
                                     " bytes are needed, and what must stay in the log leaves " +
                                     std::to_string(log_.room()));
  } catch (const error& e) {
    note_failure(e);
    if (e.code() == errc::outcome_unknown) throw;
    throw error(
        errc::log_stuck,
        std::string("the log is full and could not be truncated; nothing that was acknowledged as durable is lost: "
                    "close this memory, remove the cause, and open it again: ") +
            e.what());
  }
}

void truncator::free_room(const guard& lock, std::uint64_t bytes) {
  const auto fits = [&] { return log_.room() >= bytes; };
  // Frees a quarter of the log more than is needed, so that the next batch has room too.
  outcome how;
  (void)incremental(lock, log_.head_for(bytes + log_.capacity() / 4), how);
  if (!fits()) epoch(lock);
  if (!fits() && log_.window().used() == 0) log_.rewind();
  // What a large transaction needed before may have been given back, and what somebody holds is not free.
  while (!fits() && log_.extend(std::min(log_.capacity() + bytes, log_.max_capacity()))) {
  }
}

std::uint64_t truncator::incremental(std::uint64_t bytes) {
  const guard lock(mutex_);
  outcome how;
  const log_window window = log_.window();
  return incremental(lock, window.head + std::min(bytes, window.used()), how);
}

void truncator::truncate_all() {
  const guard lock(mutex_);
  outcome how;
  (void)incremental(lock, queue_.covered().to, how);
  if (how == outcome::blocked) epoch(lock);
}

// The files of a smaller log are made in a few ms.
bool truncator::needs_space_ahead() const noexcept {
  constexpr std::uint64_t smallest = std::uint64_t{8} << 20;
  return log_.capacity() >= smallest && !cannot_extend_.load(std::memory_order_relaxed) &&
         log_.length() < log_.capacity() && log_.room() < log_.length() / 4;
}

void truncator::extend_ahead(const guard&) {
  if (!needs_space_ahead() || failure_) return;
  try {
    log_.note_use();  // the threshold of a log that was closed may be set before anything is committed
    (void)log_.extend(log_.capacity());
  } catch (const error& e) {  // a full disk, in most cases: whoever needs the space says so
    cannot_extend_ = true;
    note_failure(e);
  }
}

void truncator::wake_if_due() {
  if (how_.background && needs_space_ahead()) wake();
  const double threshold = threshold_;
  if (threshold < 0 || threshold > 1) return;
  if (static_cast<double>(log_.window().used()) <= threshold * static_cast<double>(log_.capacity())) return;
  if (how_.background) return wake();
  const guard lock(mutex_);
  try {
    truncate_in_background(lock);
  } catch (const error&) {
    // The next caller that needs room reports the error. A failed sync is recorded already.
  } catch (const std::bad_alloc&) {  // as well: what was committed is
  }
}

void truncator::truncate_in_background(const guard& lock) {
  const double threshold = std::clamp(threshold_.load(), 0.0, 1.0), capacity = static_cast<double>(log_.capacity());
  const log_window window = log_.window();
  if (static_cast<double>(window.used()) <= threshold * capacity) return;
  // Truncates down to half the threshold, so that pages which are written often are not written at every turn.
  const lsn until = window.tail - static_cast<std::uint64_t>(threshold / 2 * capacity);
  outcome how;
  (void)incremental(lock, until, how);
  if (how == outcome::blocked) {
    blocked_ = true;
    // Who blocked it may have ended before that, and has woken nobody.
    (void)incremental(lock, until, how);
  }
  blocked_ = how == outcome::blocked;
  // Blocked for long: when half of the remaining log is used, the paper's solution, an epoch truncation.
  if (how == outcome::blocked && static_cast<double>(log_.window().used()) > (1 + threshold) / 2 * capacity) {
    epoch(lock);
    blocked_ = false;
  }
}

void truncator::request_truncation() noexcept {
  if (how_.background) {
    {
      const std::scoped_lock lock(wake_mutex_);
      everything_due_ = true;
    }
    return wake();
  }
  try {
    truncate_all();
  } catch (...) {  // see wake_if_due()
  }
}

void truncator::wake() noexcept {
  {
    const std::scoped_lock lock(wake_mutex_);
    due_ = true;
  }
  wake_condition_.notify_one();
}

void truncator::run(const std::stop_token& stop) {
  for (;;) {
    bool all;
    {
      std::unique_lock lock(wake_mutex_);
      if (!wake_condition_.wait(lock, stop, [&] { return due_; })) return;
      due_ = false;
      all = std::exchange(everything_due_, false);
    }
    const guard lock(mutex_);
    try {
      extend_ahead(lock);
      outcome how;
      if (all) (void)incremental(lock, queue_.covered().to, how);
      truncate_in_background(lock);
    } catch (...) {
      // See wake_if_due(); or a simulated crash of the storage.
    }
    os::clear_unused_stack();
  }
}

}  // namespace tenure::rvm
