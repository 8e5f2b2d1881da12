// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/incremental_backup.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "log/log_files.hpp"
#include "log/steady_log.hpp"
#include "log/unfinished.hpp"
#include "os/process.hpp"
#include "records/archive_writer.hpp"
#include "records/log_reader.hpp"
#include "replay/backup_note.hpp"
#include "replay/copied_segment.hpp"
#include "replay/log_stretches.hpp"
#include "segments/segment_table.hpp"

namespace tenure::rvm {

namespace {

// Consecutive groups, in memory.
class some_groups final : public readable_log {
 public:
  explicit some_groups(const readable_log& of) : of_(of) {}
  void add(const group_view& group, os::const_bytes bytes) {
    if (bytes_.empty()) from_ = group.header().lsn;
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize(round_up(bytes_.size(), block()));
  }
  void clear() { bytes_.clear(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] lsn begin() const { return from_; }
  [[nodiscard]] std::uint64_t length() const { return bytes_.size(); }

  [[nodiscard]] const identity& id() const override { return of_.id(); }
  [[nodiscard]] const std::string& path() const override { return of_.path(); }
  [[nodiscard]] std::uint32_t block() const override { return of_.block(); }
  [[nodiscard]] lsn end() const override { return from_ + bytes_.size(); }
  [[nodiscard]] std::string place(lsn at) const override { return of_.place(at); }
  void read(lsn at, os::bytes into) const override {
    std::memcpy(into.data(), bytes_.data() + (at - from_), into.size());
  }
  void read_ahead(lsn, std::uint64_t) const noexcept override {}

 private:
  const readable_log& of_;
  lsn from_ = 0;
  std::vector<std::byte> bytes_;
};

// One incremental backup [rvm.backup.incremental].
class backing_up_since {
 public:
  backing_up_since(os::disk& disk, const std::string& log_path, const std::string& directory, const backup_options& how)
      : disk_(disk),
        from_(os::absolute_path(log_path)),
        directory_(os::absolute_path(directory)),
        to_(directory_ + "/" + from_.substr(from_.rfind('/') + 1)),
        how_(how) {}

  backup_report run() {
    const auto began = std::chrono::steady_clock::now();
    const std::string earlier = find_backup(disk_, os::absolute_path(how_.since));
    earlier_ = read_backup_note(disk_, earlier);
    require_whole(earlier);
    require_empty_directory(disk_, directory_, "a backup");
    const steady_log held(disk_, from_, "a backup");
    make_empty_directory(disk_, directory_, "a backup");
    make_marked(disk_, to_, [&] { back_up(earlier, held.position()); });
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(report_);
  }

 private:
  void back_up(const std::string& earlier, lsn held) {
    find_end(earlier);
    log_stretches all(disk_, log_->id());
    if (earlier_.to < held) {
      const std::string archive = archive_path(from_, how_.archive);
      (void)all.add_archive(archive, 0);
      if (all.end() > tail_) find_end(earlier);  // it may have got what was committed meanwhile
      if (all.end() > tail_)
        throw error(errc::wrong_log, from_ + ": ends at LSN " + std::to_string(tail_) + ", and its archive " + archive +
                                         " has it up to LSN " + std::to_string(all.end()) +
                                         ": it is an older copy of the log; take a full backup, and begin another "
                                         "archive");
    }
    all.add_log(*log_, std::min(held, tail_), tail_, false);  // it was looked at above
    copy(all);
    if (how_.verify) verify();
    complete();
  }

  // What is continued must be good for a restore itself.
  void require_whole(const std::string& earlier) const {
    if (earlier_.is_full()) {
      require_untouched(log_files::open_unlocked(disk_, earlier)->status(), earlier, earlier_);
      return;
    }
    log_stretches all(disk_, earlier_.log_id);
    if (!all.add_archive(archive_path(earlier, {}), earlier_.to) && earlier_.from != earlier_.to)
      throw error(errc::damaged, earlier + ": the archive of this incremental backup is missing; continue another one");
  }

  void find_end(const std::string& earlier) {
    tail_ = repeated([&] {
      log_ = log_files::open_unlocked(disk_, from_);
      log_->require_last_change();
      const manifest& now = log_->status();
      return now.clean != 0 ? now.tail : find_tail(*log_, now).tail;
    });
    if (const std::string copy = log_->find_copy(); !copy.empty())
      throw error(errc::copied, copy + ": is a copy, made while the log was in use; see `tenure adopt`");
    if (log_->id() != earlier_.log_id)
      throw error(errc::wrong_log, earlier + ": is a backup of another log than " + from_ +
                                       "; give a backup of this one, or take a full backup");
    if (tail_ < earlier_.to)
      throw error(errc::wrong_log, from_ + ": ends at LSN " + std::to_string(tail_) + ", and the backup " + earlier +
                                       " has it up to LSN " + std::to_string(earlier_.to) +
                                       ": it is an older copy of the log, or its end was cut off; take a full backup");
    report_.tail = tail_;
    report_.transaction = earlier_.transaction;
    report_.time = earlier_.time;
    report_.label = earlier_.label;
  }

  void copy(const log_stretches& all) {
    counters count;
    archive_writer writer(disk_, {.path = archive_path(to_, {}), .max_size = ~std::uint64_t{0}}, *log_, count);
    some_groups pending(*log_);
    const auto write = [&] {
      if (!pending.empty()) writer.append(pending, pending.begin(), pending.end());
      pending.clear();
    };
    try {
      all.walk(earlier_.to, [&](const group_view& group, os::const_bytes bytes) {
        note(group);
        if (pending.length() + padded_length(group.header(), log_->block()) > max_stretch) write();
        pending.add(group, bytes);
        if (how_.on_progress) how_.on_progress({"copying", group.header().lsn - earlier_.to, tail_ - earlier_.to});
        return true;
      });
    } catch (const error& e) {
      if (e.code() != errc::no_history) throw;
      throw error(errc::no_history, from_ + ": cannot be backed up since LSN " + std::to_string(earlier_.to) + ": " +
                                        e.what() +
                                        "; take a full backup; so that later ones need not be full, keep an "
                                        "archive (options::archive), which has what is truncated");
    }
    write();
    report_.bytes = count.archive_bytes_written.get();
    if (report_.bytes != 0) report_.files.push_back(part_path(archive_path(to_, {}), 1));
  }

  void note(const group_view& group) {
    for (const segment_name& name : group.segments()) note(name);
    for (const transaction_view& tx : group.transactions()) {
      const auto written = std::ranges::find_if_not(tx.runs, &bulk_run_view::is_cleared);
      if (written != tx.runs.end())
        throw error(
            errc::no_history,
            "transaction " + std::to_string(tx.id) + ", at LSN " + std::to_string(group.header().lsn) +
                ", has written pages of " + group.segments()[written->segment].path +
                " in bulk, past the log, which it does not do with an archive, or while somebody holds the log");
      if ((tx.flags & record_last) == 0) continue;
      report_.transaction = tx.id;
      report_.time = tx.time;
      report_.label = tx.label;
      ++report_.transactions;
    }
  }

  void note(const segment_name& name) {
    const auto [first, last] = segments_.equal_range(name.path);
    if (std::any_of(first, last, [&](const auto& known) {
          return known.second.raw == name.raw && (name.raw || known.second.id == name.id);
        }))
      return;
    if (name.path.starts_with('/'))
      throw error(errc::bad_option, name.path + ": this segment is not in the directory of " + from_ +
                                        ", or below it; a backup has only what is there");
    // Of others, their headers say how they were made.
    if (name.raw && !is_raw_in(earlier_, name.path))
      throw error(errc::no_history,
                  "the raw segment " + name.path +
                      " was first changed after the earlier backup, which does not have its other bytes");
    segments_.emplace(name.path, name);
  }

  [[nodiscard]] static bool is_raw_in(const backup_note& of, const std::string& path) {
    return std::ranges::any_of(of.segments, [&](const noted_segment& s) { return s.raw && s.path == path; });
  }

  // A segment that is gone, or is another one by now, may not be new; then the header is not needed.
  void note_headers(backup_note& made) {
    const manifest listed = manifest_file::open_unlocked(disk_, from_).current();
    for (const auto& [path, name] : segments_) {
      noted_segment noted{path, name.raw, not_a_member, {}};
      const std::string file = absolute_segment_path(from_, path);
      if (!name.raw) {
        if (!disk_.exists(file)) continue;
        noted.header = repeated([&] { return read_segment_header(disk_, file); });
        if (noted.header.segment_id != name.id) continue;
        require_continued(path, noted.header);
        const auto entry =
            std::find_if(listed.segments.begin(), listed.segments.end(),
                         [&logged = name.path](const listed_segment& s) { return s.path_text == logged; });
        if (entry != listed.segments.end()) noted.membership = entry->membership;
      }
      made.segments.push_back(std::move(noted));
    }
    // A note has all raw segments that the full backup has: there is nothing else of which a later one could see it.
    for (const noted_segment& s : earlier_.segments)
      if (s.raw && !is_raw_in(made, s.path)) made.segments.push_back(s);
  }

  // Otherwise a restore would make zeros of what the earlier backup does not have.
  void require_continued(const std::string& path, const segment_header& now) const {
    const auto known = std::ranges::find_if(
        earlier_.segments, [&](const noted_segment& s) { return !s.raw && s.header.segment_id == now.segment_id; });
    const bool is_known = known != earlier_.segments.end();
    if (!is_known && !earlier_.is_full()) return;  // it may be in one before; a restore looks
    if (!leads_on(is_known ? &known->header : nullptr, now, log_->id(), earlier_.to))
      throw error(errc::no_history,
                  path + ": " +
                      (is_known ? "was changed under another log since the earlier backup"
                                : "has bytes that are not in the earlier backup, as it was renamed or "
                                  "belonged to another log") +
                      "; take a full backup");
  }

  void verify() const {
    log_stretches made(disk_, log_->id());
    (void)made.add_archive(archive_path(to_, {}), tail_);
    made.walk(earlier_.to, [&](const group_view& group, os::const_bytes) {
      if (how_.on_progress) how_.on_progress({"verifying", group.header().lsn - earlier_.to, tail_ - earlier_.to});
      return true;
    });
  }

  // A hold keeps truncation from the log, not a rewriting from the store.
  void require_same_log() const {
    if (manifest_file::open_unlocked(disk_, from_).current().log_id == log_->id()) return;
    throw error(errc::in_use, from_ + ": was replaced while it was copied; make the backup again");
  }

  // The backup is complete when the note has its name.
  void complete() {
    backup_note made;
    made.log_id = log_->id();
    made.from = earlier_.to;
    made.to = tail_;
    made.transaction = report_.transaction;
    made.time = report_.time;
    made.made = os::wall_clock_ns();
    made.label = report_.label;
    note_headers(made);
    require_same_log();
    write_backup_note(disk_, to_, made);
  }

  os::disk& disk_;
  const std::string from_, directory_, to_;
  const backup_options& how_;
  backup_report report_;
  backup_note earlier_;
  std::unique_ptr<log_files> log_;
  lsn tail_ = 0;
  // That are changed, by logged path. One that was removed and made again is another segment.
  std::multimap<std::string, segment_name> segments_;
};

}  // namespace

backup_report back_up_since(os::disk& disk, const std::string& log_path, const std::string& directory,
                            const backup_options& how) {
  return backing_up_since(disk, log_path, directory, how).run();
}

}  // namespace tenure::rvm
