// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Opening a log, recovery, and closing.
#include <algorithm>
#include <cassert>
#include <chrono>

#include "os/process.hpp"
#include "rvm/log_reader.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

namespace {

std::atomic<std::uint64_t> last_memory{0};

}  // namespace

memory_state::memory_state(const std::string& log_path, const options& want)
    : number(++last_memory),
      path(os::absolute_path(log_path)),
      how(want),
      disk(want.disk != nullptr ? *want.disk : os::real_disk()),
      fork_generation(os::fork_generation()),
      read_only(want.mode == open_mode::read_only),
      limits(want.limits != nullptr ? *want.limits : thresholds{}),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is thrown when memory is short
      not_restored(errc::outcome_unknown, path +
                                              ": memory was short when a transaction was aborted, and shows some of "
                                              "its changes; close this memory and open it again"),
      tune(want.tune),
      checking(want.tune.check_undeclared) {
  how.limits = nullptr;
  if (how.recovery_memory < limits.least_recovery_memory)
    throw error(errc::bad_option,
                "recovery_memory is " + std::to_string(how.recovery_memory) + " bytes: at least 8 MiB are needed");
  require_sensible(how.tune);
  open_log();
}

memory_state::~memory_state() { abandon(); }

void memory_state::abandon() noexcept {
  closed = true;
  if (truncation) truncation->stop();
  if (writer) writer->stop();
  for (const auto& r : regions.all()) {
    unmap_memory(*r);
    r->owner = nullptr;
  }
}

void memory_state::require_sensible(const tuning& how) {
  if (how.truncation_threshold != how.truncation_threshold)
    throw error(errc::bad_option, "truncation_threshold is not a number; give a part of the log, such as 0.5");
}

void memory_state::open_log() {
  if (how.mode == open_mode::create || (how.mode == open_mode::open_or_create && !disk.exists(path))) try {
      memory::create_log(path, how.log, how.on_progress, &disk);
    } catch (const error& e) {  // another process may have been faster
      if (how.mode == open_mode::create || e.code() != std::errc::file_exists || !disk.exists(path)) throw;
    }
  log.emplace(disk, path, read_only ? os::access::read_only : os::access::read_write, count);
  if (read_only) {
    const status_block status = log->status();
    const log_tail end =
        status.clean ? log_tail{status.tail, status.tail, 0, 0} : find_tail(*log, status, how.on_progress);
    live = {status.head, end.tail, end.last_group};
    log->look(end.tail);
    report.needed = live.length() != 0;
    report.head = live.from;
    report.tail = live.to;
    totals_at_open = status.totals;
    status_at_open = status;
    return;
  }
  if (how.archive) archive.emplace(disk, *how.archive, *log, count, limits.archive_frame);
  recover();
  status_at_open = log->status();
  totals_at_open = status_at_open.totals;
  log->keep_notes([this](status_block& status) { mark_segments(status); });
  queue.emplace(*log);
  tracking.emplace(count.tracking, *queue, how.on_stray_write, limits);
  truncation.emplace(*log, *queue, count, *this,
                     truncator_settings{tune.truncation_threshold, how.recovery_memory, limits.fewest_pages,
                                        how.background, archive ? &*archive : nullptr});
  writer.emplace(*log, *truncation, *queue, count, limits, tune.spool_limit, how.background);
}

// After Satyanarayanan et al. §5.1.2: the log is read from tail to head, the newest values are written to the segments, and
// only then does the status block say that the log is empty. A crash on the way leaves the log as it was.
void memory_state::recover() {
  const auto began = std::chrono::steady_clock::now();
  const status_block status = log->status();
  report.head = status.head;
  std::map<std::string, std::unique_ptr<segment>> opened;
  const bool clean = status.clean != 0;
  if (clean) {
    report.tail = status.tail;
  } else {
    const log_tail end = find_tail(*log, status, how.on_progress);
    report.tail = end.tail;
    report.torn_groups = end.torn_groups;
    report.torn_bytes = end.torn_bytes;
    if (end.tail != status.head) {
      report.needed = true;
      const auto give_up = [&](const std::string& file, errc code, const std::string& why) -> segment* {
        if (!how.give_up_segments)
          throw error(code, path + ": the log has committed changes for the segment " + file + ", " + why);
        if (std::ranges::find(report.given_up, file) == report.given_up.end()) report.given_up.push_back(file);
        return nullptr;
      };
      const auto resolve = [&](const segment_name& name) -> segment* {
        const std::string file = absolute_segment_path(name.path);
        auto& s = opened[name.path];
        if (s == nullptr) {
          if (!disk.exists(file))
            return give_up(file, errc::segment_missing,
                           "which does not exist; put it back where it was and open the log again; nothing is lost");
          s = std::make_unique<segment>(disk, file, name.path, os::access::read_write, name.raw);
        }
        // Before changes of a segment are logged its header says so [rvm.segment.in-log]. If it does not, they must not be
        // applied: this is another state of the segment than the one they were made on.
        if (!s->waits_in(status.log_id))
          return give_up(
              file, errc::wrong_log,
              "but the segment does not know of them: another log has taken it over, or it is an older copy; "
              "put the right file back, or open the log with give_up_segments");
        // Also of a segment that is open already: a faulty record must not reach the header of another kind of segment.
        if (s->is_raw() != name.raw || (!name.raw && s->id() != name.id))
          throw error(
              errc::wrong_log,
              path + ": the log has committed changes for a segment that was at " + s->path() +
                  ", but another segment is there now; put the right one back and open the log again; nothing is lost");
        if (const std::string why = s->why_of_another_moment(status, path, report.tail); !why.empty())
          return give_up(file, errc::wrong_log, "which " + why + ", or open the log with give_up_segments");
        return s.get();
      };
      // The last batch may be in the page cache only: its writer was killed before the sync, or the sync failed. It must not
      // reach some segments and then be lost with the power. A sync would not do [rvm.log.no-retry].
      log->make_durable(end.last_batch, end.tail);
      const auto damaged = [&](const std::vector<page_ref>& pages) {
        const page_ref& first = pages.front();
        if (!how.give_up_segments)
          throw error(errc::damaged,
                      path + ": " + std::to_string(pages.size()) + " pages of the segment " + first.in->path() +
                          ", the first at offset " + std::to_string(first.page * redo_page) +
                          ", are not what the transaction wrote that wrote them in bulk; restore log and "
                          "segments from a backup, or open the log with give_up_segments to go on with "
                          "the pages as they are");
        for (const page_ref& page : pages)
          if (std::ranges::find(report.given_up, page.in->path()) == report.given_up.end())
            report.given_up.push_back(page.in->path());
      };
      replay(*log, {status.head, end.tail, end.last_group},
             {.resolve = resolve,
              .memory = how.recovery_memory,
              .may_have_extents = (status.incompatible & feature_extents) != 0,
              .progress = how.on_progress,
              .damaged = damaged},
             report);
      count.damaged_pages += report.damaged.size();
      for (const auto& [name, s] : opened)
        if (s != nullptr) s->mend();
    }
  }
  if (archive) {
    if (archive->end() > report.tail)
      throw error(errc::wrong_log,
                  path + ": its archive goes on to LSN " + std::to_string(archive->end()) + ", but the log ends at " +
                      std::to_string(report.tail) +
                      ": this is an older copy of the log, with another future; move the archive away, "
                      "or give another path for it");
    archive->append(*log, status.head, report.tail);
  }
  total_slots totals = status.totals;
  ++totals[static_cast<std::size_t>(log_total::opened)];
  if (report.needed) ++totals[static_cast<std::size_t>(log_total::recovered)];
  log->start(report.tail, totals, [&](status_block& next) {
    for (const auto& [name, s] : opened)
      if (s != nullptr) s->mark_in(next);
  });
  // Only now: before, another log must not be used on them.
  for (const auto& [name, s] : opened)
    if (s != nullptr && s->waits_in(status.log_id)) s->note_not_in_log();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void memory_state::close() {
  require_own_process();
  if (closed) return;
  if (const auto open = open_ids(); !open.empty())
    throw error(errc::transactions_open, path + ": transaction " + std::to_string(open.back()) +
                                             (open.size() > 1 ? " and others are" : " is") +
                                             " still open; commit or abort first");
  // Whatever happens, the files are let go: after a failure they are opened again to learn what survived.
  struct releaser {
    memory_state& owner;
    ~releaser() { owner.let_go(); }
  } const release{*this};
  if (read_only) return;
  writer->require_usable();
  writer->quiesce([] {});
  truncation->stop();
  writer->stop();
  truncation->everything();
  for (const auto& [name, s] : segments) s->note_not_in_log();
  log->close(totals_to_store());
}

void memory_state::let_go() noexcept {
  abandon();
  regions.publish({});
  segments.clear();
  truncation.reset();
  archive.reset();
  writer.reset();
  log.reset();
}

}  // namespace tenure::rvm
