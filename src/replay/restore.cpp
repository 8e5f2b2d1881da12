// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <tenure/rvm/backup.hpp>

#include "log/log_files.hpp"
#include "log/steady_log.hpp"
#include "log/unfinished.hpp"
#include "os/process.hpp"
#include "os/virtual_memory.hpp"
#include "records/log_reader.hpp"
#include "records/prepared_record.hpp"
#include "replay/backup_note.hpp"
#include "replay/closed_log.hpp"
#include "replay/copied_segment.hpp"
#include "replay/log_stretches.hpp"
#include "replay/redo.hpp"
#include "replay/restore_plan.hpp"
#include "segments/segment_table.hpp"

namespace tenure::rvm {

namespace {

// The original's log. It stays as it is as long as this object lives.
class original_log {
 public:
  original_log(os::disk& disk, const std::string& path) : kept_(disk, path, "a restore") {
    from_ = kept_.position();
    live_ = repeated([&] {
      files_ = log_files::open_unlocked(disk, path);
      files_->require_last_change();
      const manifest& now = files_->status();
      if (now.clean != 0) return log_part{now.tail, now.tail, 0};
      const log_tail end = find_tail(*files_, now);
      return log_part{now.head, end.tail, end.last_group};
    });
  }
  [[nodiscard]] const log_files& files() const { return *files_; }
  [[nodiscard]] lsn from() const { return from_; }
  [[nodiscard]] lsn to() const { return live_.to; }
  [[nodiscard]] std::optional<prepared_contents> prepared() const { return find_prepared(*files_, live_); }

 private:
  const steady_log kept_;
  std::unique_ptr<log_files> files_;
  lsn from_ = 0;
  log_part live_{};
};

// One restore [rvm.restore].
class restoring {
 public:
  restoring(os::disk& disk, const std::string& backup, const std::string& directory, const restore_options& how)
      : disk_(disk),
        from_(find_backup(disk, os::absolute_path(backup))),
        directory_(os::absolute_path(directory)),
        to_(directory_ + "/" + from_.substr(from_.rfind('/') + 1)),
        how_(how),
        note_(read_backup_note(disk, from_)),
        all_(disk, note_.log_id) {
    os::random_bytes(own_id_);
  }

  backup_report run() {
    const auto began = std::chrono::steady_clock::now();
    open_backup();
    find_stretches();
    const restore_plan plan = make_plan();
    if (const std::string backup = from_.substr(0, from_.rfind('/') + 1); (directory_ + "/").starts_with(backup))
      throw error(errc::bad_option, directory_ + ": is in the backup; restore it somewhere else");
    make_empty_directory(disk_, directory_, "a restore");
    make_marked(disk_, to_, [&] {
      copy_segments(names_of(plan));
      roll_forward(plan);
      in_doubt_ = find_in_doubt(plan);
      if (in_doubt_)
        for (const group_view& group : in_doubt_->groups) {
          for (const segment_name& name : group.segments()) require_known(name, group.header().lsn);
          prepare_segments(group);
        }
      complete(plan);
    });
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(report_);
  }

 private:
  // Nobody may open the backup for writing meanwhile.
  void open_backup() {
    if (!note_.is_full())
      throw error(errc::bad_option,
                  from_ + ": is an incremental backup; give the full one first, and this one with it");
    log_ = log_files::open(disk_, from_, os::access::read_only);
    made_ = log_->status();
    require_untouched(made_, from_, note_);
  }

  void find_stretches() {
    for (const std::string& path : how_.increments) {
      const std::string at = find_backup(disk_, os::absolute_path(path));
      backup_note note = read_backup_note(disk_, at);
      if (note.is_full())
        throw error(errc::bad_option, at +
                                          ": is a full backup; only the first one may be that, all others are what was "
                                          "committed since");
      if (note.log_id != note_.log_id) throw error(errc::wrong_log, at + ": is a backup of another log than " + from_);
      (void)all_.add_archive(archive_path(at, {}), note.to);
      headers_.insert(headers_.end(), note.segments.begin(), note.segments.end());
      backed_up_to_ = std::max(backed_up_to_, note.to);
    }
    if (!how_.log.empty()) {
      original_ = std::make_unique<original_log>(disk_, os::absolute_path(how_.log));
      if (original_->files().id() != note_.log_id)
        throw error(errc::wrong_log, original_->files().path() + ": is not the log that " + from_ + " is a backup of");
    }
    if (!how_.archive.empty() || original_) {
      const std::string path = archive_path(original_ ? original_->files().path() : std::string(), how_.archive);
      const bool is_needed = !original_ || original_->from() > std::max(all_.end(), note_.to);
      if (!all_.add_archive(path, 0) && !how_.archive.empty() && is_needed)
        throw error(errc::wrong_log, path + ": no archive of the log is there that " + from_ + " is a backup of");
    }
    // The archive may have got what was committed meanwhile.
    if (!original_) return;
    const lsn held =
        original_->from();  // from here on nothing leaves the log: the archive may not have it, as it was read
    if (all_.end() > original_->to()) {
      held_ = std::move(original_);
      original_ = std::make_unique<original_log>(disk_, os::absolute_path(how_.log));
    }
    all_.add_log(original_->files(), held, original_->to(), original_->files().status().clean != 0);
  }

  restore_plan make_plan() {
    restore_plan plan(from_, note_, made_.block_size, how_.until, original_ != nullptr);
    all_.walk(note_.to, [&](const group_view& group, os::const_bytes) {
      if (how_.on_progress) how_.on_progress({"reading the log", group.header().lsn - note_.to, all_.end() - note_.to});
      return plan.add(group);
    });
    plan.finish(std::max(all_.end(), note_.to));
    for (const auto& [name, first] : plan.segments()) require_known(name, first);
    return plan;
  }

  // A segment that the backup does not have was made later.
  void require_known(const segment_name& name, lsn first) {
    const segment_header* earlier = nullptr;
    for (const noted_segment& s : note_.segments) {
      if (s.raw && name.raw && s.path == name.path) return;
      if (!s.raw && !name.raw && s.header.segment_id == name.id) earlier = &s.header;
    }
    if (!name.raw && (find_header(name) != nullptr || earlier != nullptr)) return require_all_changes(name, earlier);
    // The backup that has its first change would have its header, if it had still been there.
    if (!name.raw && first < backed_up_to_) {
      if (gone_.insert(name.id).second) report_.gone.push_back(name.path);
      return;
    }
    if (name.raw)
      throw error(
          errc::segment_missing,
          name.path + ": the log has changes for this raw segment, the first one at LSN " + std::to_string(first) +
              ", which is behind the backup " + from_ +
              ": nothing has its other bytes; restore a full backup that was made after that, or what was before "
              "that change");
    throw error(errc::segment_missing,
                name.path + ": the log has changes for this segment, at LSN " + std::to_string(first) +
                    ", but it was made after the backup " + from_ +
                    ", and nothing says how; give an incremental backup that was made later, or the log beside which "
                    "the segment is; or restore what was before");
  }

  // What is not in the backup must have been zeros then.
  void require_all_changes(const segment_name& name, const segment_header* earlier) const {
    const auto may_differ = [&](const segment_header& now) {
      if (now.since == 0 && now.was_blank == 0) return false;  // an earlier version of the library made it
      // What it became under another log later does not matter.
      if (earlier != nullptr && now.log_id != note_.log_id) return false;
      return !leads_on(earlier, now, note_.log_id, note_.to);
    };
    for (const noted_segment& s : headers_)
      if (!s.raw && s.header.segment_id == name.id && may_differ(s.header))
        throw error(errc::no_history,
                    name.path + ": " +
                        (earlier != nullptr ? "was changed under another log after the backup " + from_
                                            : "has bytes that are not in the backup " + from_ +
                                                  ", as it was renamed or belonged to another log") +
                        ", and nothing that is given has those changes; use a full backup that was made later");
  }

  const noted_segment* find_header(const segment_name& name) {
    const auto known = std::find_if(headers_.begin(), headers_.end(),
                                    [&](const noted_segment& s) { return !s.raw && s.header.segment_id == name.id; });
    if (known != headers_.end()) return &*known;
    if (!original_) return nullptr;
    const manifest& listed = original_->files().status();
    const std::string file = absolute_segment_path(original_->files().path(), name.path);
    if (!disk_.exists(file)) return nullptr;
    noted_segment found{name.path, false, not_a_member, repeated([&] { return read_segment_header(disk_, file); })};
    if (found.header.segment_id != name.id) return nullptr;
    for (const listed_segment& s : listed.segments)
      if (s.id == name.id) found.membership = s.membership;
    headers_.push_back(std::move(found));
    return &headers_.back();
  }

  // The names that the backup's segments have at the end: those of their last changes. "": the segment is not restored, as another
  // one has its name then.
  std::vector<std::string> names_of(const restore_plan& plan) {
    std::vector<std::string> names;
    std::vector<bool> is_changed;
    for (const noted_segment& s : note_.segments) {
      names.push_back(s.path);
      is_changed.push_back(false);
      for (const auto& [name, first] : plan.segments())
        if (!s.raw && !name.raw && name.id == s.header.segment_id) {
          names.back() = name.path;
          is_changed.back() = true;
        }
    }
    for (std::size_t n = 0; n < names.size(); ++n) {
      const bool is_taken =
          !is_changed[n] &&
          (std::ranges::count(names, names[n]) > 1 || std::ranges::any_of(plan.segments(), [&](const auto& changed) {
             const segment_name& name = changed.first;
             return !name.raw && !note_.segments[n].raw && name.path == names[n] && !gone_.contains(name.id);
           }));
      if (!is_taken) continue;
      report_.gone.push_back(names[n]);
      gone_.insert(note_.segments[n].header.segment_id);
      names[n].clear();
    }
    return names;
  }

  void copy_segments(const std::vector<std::string>& names) {
    std::uint64_t total = 0;
    for (std::size_t n = 0; n < names.size(); ++n) {
      const noted_segment& s = note_.segments[n];
      const std::string source = absolute_segment_path(from_, s.path), target = directory_ + "/" + names[n];
      if (names[n].empty()) continue;
      if (!disk_.exists(source))
        throw error(errc::segment_missing,
                    source + ": this file of the backup is missing; put it back, or use another backup");
      make_directories(disk_, directory_, names[n]);
      copied_segment copied(disk_, source, target, names[n], s.raw, made_.permissions);
      for (listed_segment& listed : made_.segments)
        if (!s.raw && listed.id == s.header.segment_id) listed.path_text = names[n];
      // Each backup has an identity of its own, which its files have, too. So files of two backups are told apart.
      if (!s.raw && (copied.header().segment_id != s.header.segment_id || copied.header().log_id != note_.own_id))
        throw error(errc::wrong_log, source + ": is not the file that the backup had there; put that one back");
      total += copied.length();
      copied.copy([&](std::uint64_t bytes) {
        report_.bytes += bytes;
        if (how_.on_progress) how_.on_progress({"copying", report_.bytes, std::max(total, report_.bytes)});
      });
      copied.open(own_id_, to_, note_.to);
      segments_[names[n]] = copied.take();
      disk_.sync_directory_of(target);
      report_.files.push_back(target);
    }
  }

  void roll_forward(const restore_plan& plan) {
    if (plan.is_at_backup()) return;
    // What the log has for pages is collected in memory, newest first: so much of the log at a time.
    const std::uint64_t most = std::max<std::uint64_t>(how_.memory / 4, max_group);
    std::vector<std::pair<std::vector<std::byte>, group_header>> pending;
    std::uint64_t length = 0;
    all_.walk(note_.to, [&](const group_view& group, os::const_bytes bytes) {
      pending.emplace_back(std::vector<std::byte>(bytes.begin(), bytes.end()), group.header());
      length += bytes.size();
      if (how_.on_progress) how_.on_progress({"recovering", group.header().lsn - note_.to, plan.tail() - note_.to});
      const bool is_last = group.header().lsn == plan.last_group();
      if (length < most && !is_last) return true;
      apply(pending, plan);
      pending.clear();
      length = 0;
      return !is_last;
    });
    for (segment* s : written_) s->finish_writes();
  }

  void apply(const std::vector<std::pair<std::vector<std::byte>, group_header>>& groups, const restore_plan& plan) {
    redo values([&](const segment_name& name) { return find(name); });
    std::vector<group_view> views;
    for (const auto& [bytes, header] : groups) {
      views.emplace_back(bytes, header, "the log's group at LSN " + std::to_string(header.lsn));
      plan.cut(views.back());
      prepare_segments(views.back());
    }
    std::for_each(views.rbegin(), views.rend(), [&](const group_view& view) { values.add(view); });
    values.set_through(plan.tail());
    std::vector<recovery_report::segment> pages;
    values.write(pages, written_);
    report_.transactions += values.transactions();
    if (const auto& damaged = values.findings().damaged; !damaged.empty())
      throw error(errc::damaged, damaged.front().in->path() + ": the page at offset " +
                                     std::to_string(damaged.front().page * redo_page) +
                                     " does not match its checksum, nor does it in the backup " + from_ +
                                     "; use another backup");
  }

  // nullptr: no transaction that is wanted changes it.
  segment* find(const segment_name& name) {
    for (const auto& [path, s] : segments_)
      if (name.raw ? s->is_raw() && path == name.path : !s->is_raw() && s->id() == name.id) return s.get();
    for (const auto& s : replaced_)
      if (!name.raw && s->id() == name.id) return s.get();
    return nullptr;
  }

  // Makes segments that the backup does not have, and lets those grow that had grown.
  void prepare_segments(const group_view& group) {
    std::vector<std::uint64_t> ends(group.segments().size());
    for (const transaction_view& tx : group.is_prepared() ? group.prepared() : group.transactions())
      for (const range_view& range : tx.ranges)
        ends[range.segment] = std::max(ends[range.segment], range.offset + range.value.size());
    for (std::size_t n = 0; n < ends.size(); ++n) {
      const segment_name& name = group.segments()[n];
      if (ends[n] == 0 || name.raw || gone_.contains(name.id)) continue;
      const std::uint64_t needed =
          round_up(std::max(ends[n], group.lengths()[n]), std::max<std::uint64_t>(os::page_size(), redo_page));
      if (segment* const in = find(name); in == nullptr)
        make_segment(name, needed);
      else if (in->length() < needed && needed <= in->max_length())
        in->grow(needed);
    }
  }

  void make_segment(const segment_name& name, std::uint64_t length) {
    const noted_segment& like = *find_header(name);
    const std::string target = directory_ + "/" + name.path;
    make_directories(disk_, directory_, name.path);
    remove_namesake(name, target);
    segment::create_like(disk_, target, like.header, length, made_.permissions);
    auto made = std::make_unique<segment>(disk_, target, name.path, os::access::read_write, false);
    made->note_in_log(own_id_, to_, note_.to);
    if (like.membership != not_a_member) {
      listed_segment listed{};
      listed.id = name.id;
      listed.membership = full_member;  // a transaction has changed it
      listed.path_text = name.path;
      made_.segments.push_back(std::move(listed));
    }
    report_.files.push_back(target);
    segments_[name.path] = std::move(made);
  }

  // The original's user has removed the segment that had the name, and made another one. Of the removed one there may be more to
  // apply, which nobody will see.
  void remove_namesake(const segment_name& name, const std::string& target) {
    const auto known = segments_.find(name.path);
    if (known == segments_.end()) return;
    std::erase_if(made_.segments, [&](const listed_segment& s) { return s.path_text == name.path; });
    std::erase(report_.files, target);
    disk_.remove(target);
    replaced_.push_back(std::move(known->second));
    segments_.erase(known);
  }

  // It is complete when the log has its name.
  void complete(const restore_plan& plan) {
    std::map<std::string, segment*> opened;
    for (const auto& [path, s] : segments_) {
      opened.emplace(path, s.get());
      if (how_.with_damaged_pages) continue;
      if (const auto bad = s->verify(how_.on_progress); !bad.empty())
        throw error(errc::damaged, s->path() + ": the page at offset " + std::to_string(bad.front()) +
                                       " does not match its checksum, nor does it in the backup " + from_ +
                                       "; use another backup, or restore it with damaged pages as they are");
    }
    report_.tail = plan.tail();
    report_.transaction = plan.transaction();
    report_.time = plan.time();
    report_.label = plan.label();
    report_.left_out = plan.left_out();
    make_closed_log(disk_, to_, made_, own_id_, plan.tail(), opened, in_doubt_);
  }

  // What is prepared where the original ends: whoever decides takes it for granted [rvm.restore.in-doubt].
  [[nodiscard]] std::optional<prepared_contents> find_in_doubt(const restore_plan& plan) const {
    if (!original_ || !plan.is_everything()) return std::nullopt;
    auto found = original_->prepared();
    const restore_point& until = how_.until;
    if (!found || until.transaction || (until.time && found->what.time > *until.time) ||
        (until.position && found->from > *until.position))
      return std::nullopt;
    return found;
  }

  os::disk& disk_;
  const std::string from_, directory_, to_;
  const restore_options& how_;
  const backup_note note_;
  log_stretches all_;
  std::unique_ptr<original_log> original_, held_;  // as it is; as it was at first
  std::unique_ptr<log_files> log_;                 // the backup's
  manifest made_{};                                // like which the new log is made
  identity own_id_{};                              // of the new log: what is committed there is another history
  std::vector<noted_segment> headers_;             // of segments that were changed after the backup
  lsn backed_up_to_ = 0;                           // by incremental backups
  std::set<identity> gone_;                        // made after the full backup, and removed before the next one
  std::map<std::string, std::unique_ptr<segment>> segments_;  // by logged path
  std::vector<std::unique_ptr<segment>> replaced_;            // removed, and others have their names
  std::set<segment*> written_;
  std::optional<prepared_contents> in_doubt_;
  backup_report report_;
};

}  // namespace

backup_report restore(const std::string& backup, const std::string& directory, const restore_options& how) {
  os::disk& disk = how.disk != nullptr ? *how.disk : os::real_disk();
  return restoring(disk, backup, directory, how).run();
}

}  // namespace tenure::rvm
