// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// rvm_statistics. The numbers come from the log's counters, current ones and those over its life, and from this layer's
// histograms.
#include <algorithm>
#include <cstring>

#include <rvm/rvm_statistics.h>

#include "classic/activity.hpp"
#include "classic/codes.hpp"
#include "classic/library.hpp"
#include "classic/transaction_records.hpp"

namespace tenure::classic {

namespace {

rvm_offset_t offset_of(std::uint64_t bytes) { return {0, bytes}; }

timeval time_of(std::uint64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<suseconds_t>(ns % 1'000'000'000 / 1000)};
}

rvm_length_t per_cent(std::uint64_t part, std::uint64_t whole) { return whole == 0 ? 0 : part * 100 / whole; }

// LSNs are never used twice. So an LSN tells how often all of the log was used. This is wrong once the log has grown.
std::uint64_t laps(std::uint64_t at, std::uint64_t area) { return area == 0 ? 0 : at / area; }

void fill_current(rvm_statistics_t& s, const rvm::memory& log, const rvm::statistics& now) {
  activity& done = the_activity();
  s.n_abort = now.aborts + done.aborts_without_restore.load(std::memory_order_relaxed);
  s.n_flush_commit = now.flush_commits;
  s.n_no_flush_commit = now.no_flush_commits;
  s.n_uncommit = log.open_transactions().size();
  s.n_no_flush = now.spooled_bytes != 0 ? 1 : 0;
  s.n_truncation_wait = now.truncation_waits;
  s.no_flush_length = offset_of(now.spooled_bytes);

  s.n_flush = now.batches;
  s.n_rvm_flush = done.flush_calls.load(std::memory_order_relaxed);
  if (now.log_grown == 0)
    s.n_wrap = laps(log.recovery().tail - log.recovery().first + now.log_bytes_written, now.log_size) -
               laps(log.recovery().tail - log.recovery().first, now.log_size);
  s.log_dev_cur = per_cent(now.log_used, now.log_size);
  s.log_written = offset_of(now.log_bytes_written);
  s.range_overlap = offset_of(now.intra_bytes_saved);
  s.trans_overlap = offset_of(now.inter_bytes_saved);
  s.n_range_elim = now.intra_ranges_saved;
  s.n_trans_elim = s.n_trans_coalesced = now.inter_transactions_saved;
  s.flush_time = time_of(now.write_ns);
  s.last_flush_time = done.last_flush_ms.load(std::memory_order_relaxed);
  s.last_truncation_time = done.last_truncation_s.load(std::memory_order_relaxed);
  done.flush_times.add_to(s.flush_times);
  add_range_lengths(s.range_lengths);
}

void fill_totals(rvm_statistics_t& s, const rvm::log_totals& all, std::uint64_t log_size, std::uint64_t length) {
  s.tot_abort = all.aborts + the_activity().aborts_without_restore.load(std::memory_order_relaxed);
  s.tot_flush_commit = all.transactions - all.no_flush_commits;
  s.tot_no_flush_commit = all.no_flush_commits;
  s.tot_flush = all.batches;
  s.tot_rvm_flush = all.flush_calls;
  if (all.log_grown == 0) s.tot_wrap = laps(length, log_size);
  s.log_dev_max = per_cent(all.log_used_max, log_size);
  s.tot_log_written = offset_of(all.log_bytes_written);
  s.tot_range_overlap = offset_of(all.intra_bytes_saved);
  s.tot_trans_overlap = offset_of(all.inter_bytes_saved);
  s.tot_range_elim = all.intra_ranges_saved;
  s.tot_trans_elim = s.tot_trans_coalesced = all.inter_transactions_saved;
  s.tot_rvm_truncate = all.truncate_calls;
  s.tot_async_truncation = all.incremental_truncations + all.epoch_truncations;
  s.tot_sync_truncation = s.tot_truncation_wait = all.truncation_waits;
  s.tot_recovery = all.recovered;
  s.tot_flush_time = time_of(all.write_ns);
  s.tot_truncation_time = time_of(all.truncation_ns);
  the_activity().truncation_times.add_to(s.tot_truncation_times);
  std::ranges::copy(s.flush_times, s.tot_flush_times);
  std::ranges::copy(s.range_lengths, s.tot_range_lengths);
}

// --- Printing ---

struct line {
  const char* what;
  rvm_length_t now, ever;
};

unsigned long milliseconds(const timeval& t) {
  return static_cast<unsigned long>(t.tv_sec) * 1000 + static_cast<unsigned long>(t.tv_usec) / 1000;
}

template <std::size_t bins>
void print_histogram(std::FILE* out, const char* what, const rvm_length_t (&counts)[bins],
                     const std::array<std::uint64_t, bins - 1>& limits) {
  std::fprintf(out, "%s\n", what);
  for (std::size_t i = 0; i < bins; ++i) {
    if (i < limits.size())
      std::fprintf(out, "  up to %8lu  %12lu\n", static_cast<unsigned long>(limits[i]), counts[i]);
    else
      std::fprintf(out, "  more            %12lu\n", counts[i]);
  }
}

void print(std::FILE* out, const rvm_statistics_t& s) {
  const line lines[] = {
      {"transactions aborted", s.n_abort, s.tot_abort},
      {"committed, flush", s.n_flush_commit, s.tot_flush_commit},
      {"committed, no_flush", s.n_no_flush_commit, s.tot_no_flush_commit},
      {"writes of the log", s.n_flush, s.tot_flush},
      {"calls of rvm_flush", s.n_rvm_flush, s.tot_rvm_flush},
      {"times around the log", s.n_wrap, s.tot_wrap},
      {"bytes of log written", s.log_written.low, s.tot_log_written.low},
      {"ranges saved by merging", s.n_range_elim, s.tot_range_elim},
      {"bytes saved by merging", s.range_overlap.low, s.tot_range_overlap.low},
      {"no_flush transactions saved", s.n_trans_elim, s.tot_trans_elim},
      {"bytes saved by that", s.trans_overlap.low, s.tot_trans_overlap.low},
      {"commits that waited for room", s.n_truncation_wait, s.tot_truncation_wait},
      {"time in writing the log, ms", milliseconds(s.flush_time), milliseconds(s.tot_flush_time)},
  };
  std::fprintf(out, "%-30s %15s %15s\n", "", "since opening", "log's life");
  for (const line& l : lines) std::fprintf(out, "%-30s %15lu %15lu\n", l.what, l.now, l.ever);
  std::fprintf(out, "%-30s %15lu\n", "open transactions", s.n_uncommit);
  std::fprintf(out, "%-30s %15lu\n", "bytes committed, not durable", s.no_flush_length.low);
  std::fprintf(out, "%-30s %15lu\n", "log in use, per cent", s.log_dev_cur);
  std::fprintf(out, "%-30s %15s %15lu\n", "largest ever", "", s.log_dev_max);
  std::fprintf(out, "%-30s %15s %15lu\n", "calls of rvm_truncate", "", s.tot_rvm_truncate);
  std::fprintf(out, "%-30s %15s %15lu\n", "truncations", "", s.tot_async_truncation);
  std::fprintf(out, "%-30s %15s %15lu\n", "time in truncation, ms", "", milliseconds(s.tot_truncation_time));
  std::fprintf(out, "%-30s %15s %15lu\n", "recoveries", "", s.tot_recovery);
  print_histogram(out, "flushes by milliseconds", s.flush_times, {flush_times_dist});
  print_histogram(out, "ranges declared by bytes", s.range_lengths, {range_lengths_dist});
}

}  // namespace

}  // namespace tenure::classic

using namespace tenure;
using namespace tenure::classic;

rvm_return_t rvm_statistics(const char* version, rvm_statistics_t* statistics) {
  return guarded([&] {
    if (!is_running()) return RVM_EINIT;
    if (version == nullptr || std::strcmp(version, RVM_STATISTICS_VERSION) != 0) return RVM_ESTAT_VERSION_SKEW;
    if (statistics == nullptr || statistics->struct_id != rvm_statistics_id) return RVM_ESTATISTICS;
    if (log() == nullptr) return RVM_ELOG;
    const rvm_bool_t from_heap = statistics->from_heap;
    rvm_init_statistics(statistics);
    statistics->from_heap = from_heap;
    const rvm::statistics now = log()->stats();
    fill_current(*statistics, *log(), now);
    fill_totals(*statistics, log()->totals(), now.log_size,
                log()->recovery().tail - log()->recovery().first + now.log_bytes_written);
    return RVM_SUCCESS;
  });
}

rvm_return_t rvm_print_statistics(rvm_statistics_t* statistics, FILE* out) {
  if (statistics == nullptr || statistics->struct_id != rvm_statistics_id) return RVM_ESTATISTICS;
  if (out == nullptr) return RVM_EIO;
  print(out, *statistics);
  return std::ferror(out) != 0 ? RVM_EIO : RVM_SUCCESS;
}
