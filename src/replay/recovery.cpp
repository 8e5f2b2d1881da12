// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/recovery.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "segments/segment_table.hpp"

namespace tenure::rvm {

namespace {

// One recovery.
class recovering {
 public:
  recovering(local_log& log, const recovery_settings& how) : log_(log), how_(how), status_(log.status()) {}

  recovered run() {
    const auto began = std::chrono::steady_clock::now();
    report_.first = status_.first;
    report_.head = status_.head;
    report_.tail = status_.tail;
    if (status_.clean == 0)
      replay_live_part();
    else
      require_newest(log_, status_);
    if (how_.archive != nullptr) archive();
    start_generation();
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return {std::move(report_), std::move(prepared_)};
  }

 private:
  void replay_live_part() {
    const log_tail end = find_tail(log_, status_, how_.progress);
    report_.tail = end.tail;
    report_.torn_groups = end.torn_groups;
    report_.torn_bytes = end.torn_bytes;
    if (end.tail == status_.head) return;
    report_.needed = true;
    // The last batch may be in the page cache only, because its writer was killed before the sync, or because the sync
    // failed. It must not reach some segments and then be lost when the power fails. Another sync would not help
    // [rvm.log.no-retry].
    log_.make_durable(end.last_batch, end.tail);
    replay(log_, {status_.head, end.tail, end.last_group},
           {.resolve = [this](const segment_name& name) { return resolve(name); },
            .memory = how_.memory,
            .may_have_extents = (status_.incompatible & feature_bulk_runs) != 0,
            .progress = how_.progress,
            .damaged = [this](const std::vector<page_ref>& pages) { accept_damage(pages); }},
           report_);
    for (const auto& [name, s] : opened_)
      if (s != nullptr) s->repair_checksums();
    prepared_ = find_prepared(log_, {status_.head, end.tail, end.last_group});
    if (prepared_) log_.keep_adopted();  // before the outcome is asked for, which may not be known
    if (prepared_ && how_.in_doubt(prepared_->what) == outcome::aborted) prepared_.reset();
  }

  // The segment that a record names; nullptr if it is given up.
  segment* resolve(const segment_name& name) {
    const std::string file = absolute_segment_path(log_.path(), name.path);
    auto& s = opened_[name.path];
    if (s == nullptr) {
      if (!how_.disk.exists(file))
        return give_up(file, errc::segment_missing,
                       "which does not exist; put it back where it was and open the log again; nothing is lost");
      s = std::make_unique<segment>(how_.disk, file, name.path, os::access::read_write, name.raw);
    }
    // A segment's header names the log before the log gets changes for it [rvm.segment.in-log]. If this header does not
    // name it, the changes were made on another state of the segment and must not be applied.
    if (!s->may_have_changes_in(log_.id()))
      return give_up(file, errc::wrong_log,
                     "but the segment does not know of them: another log has taken it over, or it is an older copy; "
                     "put the right file back, or open the log with give_up_segments");
    // Also checked for a segment that is open already: a faulty record must not reach the header of another kind of
    // segment.
    if (s->is_raw() != name.raw || (!name.raw && s->id() != name.id))
      throw error(
          errc::wrong_log,
          log_.path() + ": the log has committed changes for a segment that was at " + s->path() +
              ", but another segment is there now; put the right one back and open the log again; nothing is lost");
    if (const std::string why = s->find_mismatch(status_, log_.path(), report_.tail); !why.empty())
      return give_up(file, errc::wrong_log, "which " + why + ", or open the log with give_up_segments");
    return s.get();
  }

  segment* give_up(const std::string& file, errc code, const std::string& why) {
    if (!how_.give_up_segments)
      throw error(code, log_.path() + ": the log has committed changes for the segment " + file + ", " + why);
    note_given_up(file);
    return nullptr;
  }

  void note_given_up(const std::string& file) {
    if (std::ranges::find(report_.given_up, file) == report_.given_up.end()) report_.given_up.push_back(file);
  }

  void accept_damage(const std::vector<page_ref>& pages) {
    const page_ref& first = pages.front();
    if (!how_.give_up_segments)
      throw error(errc::damaged, log_.path() + ": " + std::to_string(pages.size()) + " pages of the segment " +
                                     first.in->path() + ", the first at offset " +
                                     std::to_string(first.page * redo_page) +
                                     ", are not what the transaction wrote that wrote them in bulk; restore log and "
                                     "segments from a backup, or open the log with give_up_segments to go on with "
                                     "the pages as they are");
    for (const page_ref& page : pages) note_given_up(page.in->path());
  }

  void archive() {
    if (how_.archive->end() > report_.tail)
      throw error(errc::wrong_log,
                  log_.path() + ": its archive goes on to LSN " + std::to_string(how_.archive->end()) +
                      ", but the log ends at " + std::to_string(report_.tail) +
                      ": this is an older copy of the log, with another future; move the archive away, "
                      "or give another path for it");
    how_.archive->require_same_past(log_, status_.head, report_.tail);
    how_.archive->append(log_, status_.head, report_.tail);
  }

  void start_generation() {
    total_slots totals = status_.totals;
    ++totals[static_cast<std::size_t>(log_total::opened)];
    if (report_.needed) ++totals[static_cast<std::size_t>(log_total::recovered)];
    log_.start(prepared_ ? prepared_->from : report_.tail, report_.tail, totals, [this](manifest& next) {
      for (const auto& [name, s] : opened_)
        if (s != nullptr) s->add_to(next);
    });
    // Not done earlier, because until now no other log may be used on these segments; nor while the log keeps what is prepared.
    for (const auto& [name, s] : opened_)
      if (s != nullptr && s->may_have_changes_in(log_.id()) && !is_in_prepared(name)) s->note_not_in_log();
  }

  [[nodiscard]] bool is_in_prepared(const std::string& path) const {
    return prepared_ && std::ranges::any_of(prepared_->groups, [&](const group_view& group) {
             return std::ranges::find(group.segments(), path, &segment_name::path) != group.segments().end();
           });
  }

  local_log& log_;
  const recovery_settings& how_;
  const manifest status_;
  recovery_report report_;
  std::optional<prepared_contents> prepared_;
  std::map<std::string, std::unique_ptr<segment>> opened_;  // by logged path
};

}  // namespace

recovered recover(local_log& log, const recovery_settings& how) { return recovering(log, how).run(); }

log_part find_live_part(local_log& log, const progress_callback& progress) {
  const manifest status = log.status();
  if (status.clean != 0) require_newest(log, status);
  const log_tail end =
      status.clean != 0 ? log_tail{status.tail, status.tail, 0, 0, 0} : find_tail(log, status, progress);
  log.look(end.tail);
  return {status.head, end.tail, end.last_group};
}

redo changes_in_log(const readable_log& log, const log_part& live, segment& of) {
  redo values([&](const segment_name& name) {
    const bool same = name.raw == of.is_raw() && (name.raw ? name.path == of.logged_path() : name.id == of.id());
    // As in recovery: these changes were not made on this state of the segment.
    if (same && !of.may_have_changes_in(log.id()))
      throw error(errc::wrong_log,
                  of.path() + ": the log " + log.path() +
                      " has changes for this segment, but the segment does not know of them: another log has taken it "
                      "over, or it is an older copy; put the right file back");
    return same ? &of : nullptr;
  });
  if (live.length() != 0)
    read_backwards(log, live, [&](const group_view& group) {
      values.add(group);
      return true;
    });
  return values;
}

}  // namespace tenure::rvm
