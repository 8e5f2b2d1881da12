// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/backup.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "log/log_files.hpp"
#include "log/steady_log.hpp"
#include "log/unfinished.hpp"
#include "os/process.hpp"
#include "records/log_reader.hpp"
#include "replay/backup_note.hpp"
#include "replay/closed_log.hpp"
#include "replay/copied_segment.hpp"
#include "replay/incremental_backup.hpp"
#include "replay/redo.hpp"
#include "segments/segment_table.hpp"

namespace tenure::rvm {

namespace {

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// One backup [rvm.backup].
class backing_up {
 public:
  backing_up(os::disk& disk, const std::string& log_path, const std::string& directory, const backup_options& how,
             const std::function<void()>& require_whole)
      : disk_(disk),
        from_(os::absolute_path(log_path)),
        directory_(os::absolute_path(directory)),
        to_(directory_ + "/" + from_.substr(from_.rfind('/') + 1)),
        how_(how),
        require_whole_(require_whole) {
    os::random_bytes(own_id_);
  }

  backup_report run() {
    const auto began = std::chrono::steady_clock::now();
    require_empty_directory(disk_, directory_, "a backup");
    const steady_log held(disk_, from_, "a backup");
    make_empty_directory(disk_, directory_, "a backup");
    log_id_ = manifest_file::open_unlocked(disk_, from_).current().log_id;
    if (require_whole_) require_whole_();
    try {
      make_marked(disk_, to_, [&] { back_up(held.position()); });
    } catch (const error&) {
      require_same_log();
      throw;
    }
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(report_);
  }

 private:
  struct named {
    segment_name of;
    bool must_exist;
  };

  void back_up(lsn held) {
    if (const std::string copy = log_files::open_unlocked(disk_, from_)->find_copy(); !copy.empty())
      throw error(errc::copied, copy + ": is a copy, made while the log was in use; `tenure adopt` checks such copies");
    scanned_ = held;
    // Until nothing was copied that may be of a later moment than the tail.
    while (!copy_up_to_date()) {
    }
    replay_since(held);
    complete();
  }

  // A hold keeps truncation from the log, not a rewriting from the store, which may have begun before.
  void require_same_log() const {
    if (manifest_file::open_unlocked(disk_, from_).current().log_id == log_id_) return;
    throw error(errc::in_use, from_ + ": was replaced while it was copied; make the backup again");
  }

  void find_end() {
    // Before the tail is looked for: the first transaction of a member that is pending no longer lies before the tail.
    manifest_ = manifest_file::open_unlocked(disk_, from_).current();
    tail_ = repeated([&] {
      log_ = log_files::open_unlocked(disk_, from_);
      log_->require_last_change();
      const manifest& now = log_->status();
      return now.clean != 0 ? now.tail : find_tail(*log_, now).tail;
    });
    made_ = os::wall_clock_ns();
  }

  // Returns whether all copies were made before the tail that it has found.
  bool copy_up_to_date() {
    for (const auto& [path, s] : segments_) s->note_bulk_under_way();
    find_end();
    // A member is listed before the log has anything of it. What is not listed is in the log, or was never changed.
    const manifest listed = manifest_file::open_unlocked(disk_, from_).current();
    if (listed.unlisted != 0)
      throw error(errc::too_big, from_ +
                                     ": the log has more segments than its manifest has room for, so a backup might "
                                     "lack one; close the log, and copy all files");
    std::vector<std::pair<segment_name, bulk_run_view>> bulk;
    scan_groups(*log_, scanned_, tail_, [&](const group_header& header, os::const_bytes bytes) {
      const group_view group(bytes, header, place_of(*log_, header.lsn));
      for (const segment_name& name : group.segments()) note_changed(name);
      for (const transaction_view& tx : group.transactions())
        for (const bulk_run_view& run : tx.runs) bulk.emplace_back(group.segments()[run.segment], run);
      scanned_ = header.lsn + padded_length(header, log_->block());
      return true;
    });
    bool up_to_date = true;
    const std::vector<segment_name> there = find_what_is_there(listed);
    for (const auto& [path, s] : segments_)
      if (std::ranges::find(there, path, &segment_name::path) == there.end()) disk_.remove(s->path());
    std::erase_if(segments_, [&](const auto& copied) {
      return std::ranges::find(there, copied.first, &segment_name::path) == there.end();
    });
    for (const segment_name& name : there) up_to_date &= !copy_segment(name);
    for (const auto& [name, run] : bulk) {
      if (copied_segment* const copied = find_copied(name)) copied->copy_again(run.offset, run.length());
      up_to_date = false;
    }
    return up_to_date;
  }

  void note_changed(const segment_name& name) {
    const auto is_same = [&](const segment_name& n) {
      return n.raw == name.raw && n.id == name.id && n.path == name.path;
    };
    if (std::ranges::none_of(changed_, is_same)) changed_.push_back(name);
  }

  // The segments that are where they were when they were changed last. Tells of those that are not.
  [[nodiscard]] std::vector<segment_name> find_what_is_there(const manifest& listed) {
    std::vector<named> all;
    for (const listed_segment& s : listed.segments)
      all.push_back({{s.id, s.is_raw(), s.path_text}, s.membership != not_a_member});
    for (const segment_name& name : changed_) all.push_back({name, !seen_.contains(name.path)});
    std::vector<segment_name> there;
    report_.gone.clear();
    for (const named& n : all)
      if ((n.must_exist || disk_.exists(absolute_segment_path(from_, n.of.path))) && !was_replaced(n.of, all))
        there.push_back(n.of);
      else if (std::ranges::find(report_.gone, n.of.path) == report_.gone.end())
        report_.gone.push_back(n.of.path);
    return there;
  }
  // One path may have been that of a raw segment and of one with a header, as the file says that is there.
  [[nodiscard]] bool was_replaced(const segment_name& name, const std::vector<named>& all) const {
    const auto has_path = [&](const named& n) { return n.of.path == name.path; };
    if (std::ranges::none_of(all, [&](const named& n) { return has_path(n) && n.of.raw != name.raw; })) return false;
    identity there{};
    try {
      const std::string file = absolute_segment_path(from_, name.path);
      there = repeated([&] { return read_segment_header(disk_, file); }).segment_id;
    } catch (const error& e) {
      if (e.code() != errc::not_a_segment) throw;
    }
    const bool is_raw =
        std::ranges::none_of(all, [&](const named& n) { return has_path(n) && !n.of.raw && n.of.id == there; });
    return is_raw != name.raw;
  }

  // The copy that has what was changed under this name; nullptr if the file is another one by now.
  [[nodiscard]] copied_segment* find_copied(const segment_name& name) const {
    const auto found = segments_.find(name.path);
    if (found == segments_.end() || found->second->is_raw() != name.raw) return nullptr;
    return name.raw || found->second->header().segment_id == name.id ? found->second.get() : nullptr;
  }

  // Returns whether it was copied now: what has the name, whichever segment that is by now.
  bool copy_segment(const segment_name& name) {
    const std::string source = absolute_segment_path(from_, name.path);
    if (const auto known = segments_.find(name.path); known != segments_.end()) {
      const bool is_same = known->second->is_raw() == name.raw && known->second->is_current();
      if (is_same || !disk_.exists(source)) return false;  // if it was removed just now, the copy is whole all the same
      disk_.remove(known->second->path());
      segments_.erase(known);
    }
    if (name.path.starts_with('/'))
      throw error(errc::bad_option, source + ": this segment is not in the log's directory, " + directory_of(from_) +
                                        ", or below it; a backup has only what is there");
    const std::string target = directory_ + "/" + name.path;
    make_directories(disk_, directory_, name.path);
    auto& copied = segments_[name.path];
    copied = std::make_unique<copied_segment>(disk_, source, target, name.path, name.raw, manifest_.permissions);
    seen_.insert(name.path);
    if (!name.raw) require_right_file(name, source, *copied);
    total_ += copied->length();
    copied->copy([&](std::uint64_t bytes) {
      report_.bytes += bytes;
      if (how_.on_progress) how_.on_progress({"copying", report_.bytes, std::max(total_, report_.bytes)});
    });
    return true;
  }

  // Which segment had the name last, as the manifest says: others were removed by the user.
  [[nodiscard]] const identity& last_named(const segment_name& name) const {
    const listed_segment* last = nullptr;
    for (const listed_segment& s : manifest_.segments)
      if (s.path_text == name.path && (last == nullptr || s.applied > last->applied)) last = &s;
    return last != nullptr ? last->id : name.id;
  }
  // The name that the manifest has for it is nobody's any more: it has got another one, of a segment that was removed.
  [[nodiscard]] bool was_renamed(const identity& id) const {
    const auto listed = std::ranges::find(manifest_.segments, id, &listed_segment::id);
    return listed != manifest_.segments.end() && !disk_.exists(absolute_segment_path(from_, listed->path_text));
  }
  // The manifest does not yet list what was made since the log was opened.
  [[nodiscard]] bool is_in_log(const std::string& path, const identity& id) const {
    bool found = false;
    scan_groups(*log_, manifest_.head, tail_, [&](const group_header& header, os::const_bytes bytes) {
      const group_view group(bytes, header, place_of(*log_, header.lsn));
      found = std::ranges::any_of(group.segments(),
                                  [&](const segment_name& s) { return !s.raw && s.path == path && s.id == id; });
      return !found;
    });
    return found;
  }

  // A backup would make one of several moments, or another one's file, look as if all was well.
  void require_right_file(const segment_name& name, const std::string& source, const copied_segment& copied) {
    const segment_header& h = copied.header();
    const auto is_foreign = [&] {
      return h.log_id != identity{} && h.segment_id != last_named(name) && !was_renamed(h.segment_id) &&
             !is_in_log(name.path, h.segment_id);
    };
    // It may have been made and changed since the end was found. The next round copies what this one has missed.
    if (is_foreign()) find_end();
    if (is_foreign())
      throw error(errc::wrong_log, source + ": is not the file that the log " + from_ + " knows; put that one back");
    const auto listed = std::ranges::find(manifest_.segments, h.segment_id, &listed_segment::id);
    if (listed == manifest_.segments.end()) return;
    if (manifest_.clean == 0 && listed->inode != 0 && listed->inode != copied.inode())
      throw error(errc::copied, source + ": is a copy, made while the log was in use; see `tenure adopt`");
    if (h.log_id == manifest_.log_id && h.applied_sequence == h.sequence && h.applied != 0 &&
        h.applied < listed->applied)
      throw error(errc::wrong_log, source +
                                       ": is an older copy; put files of the same moment in place, or restore log "
                                       "and segments from a backup");
  }

  void replay_since(lsn position) {
    for (const auto& [path, s] : segments_) {
      s->open(own_id_, to_, tail_);
      report_.files.push_back(s->path());
      disk_.sync_directory_of(s->path());
    }
    report_.tail = tail_;
    if (tail_ == position) return;
    recovery_report done;
    // If everything is in the segments already, the tail is known without its last group.
    const log_part all{position, tail_, find_group_before(*log_, position, tail_)};
    replay(*log_, all,
           {.resolve =
                [&](const segment_name& name) {
                  copied_segment* const copied = find_copied(name);
                  return copied != nullptr ? &copied->opened() : nullptr;
                },
            .memory = how_.memory,
            .may_have_extents = true,
            .progress = how_.on_progress,
            .damaged =
                [&](const std::vector<page_ref>& pages) {
                  for (const page_ref& page : pages) require_under_way(page);
                }},
           done);
    report_.transactions = done.transactions;
    read_backwards(*log_, all, [&](const group_view& group) {
      for (const transaction_view& tx : group.transactions())
        if (tx.flags & record_last) {
          report_.transaction = tx.id;
          report_.time = tx.time;
          report_.label = tx.label;
        }
      return report_.transaction == 0;
    });
  }

  // A bulk write that was under way may have overwritten a page that an earlier transaction wrote in bulk, and has freed.
  void require_under_way(const page_ref& page) const {
    for (const auto& [path, s] : segments_)
      if (&s->opened() == page.in && s->was_bulk_under_way(page.page)) return;
    throw error(errc::damaged, from_ + ": the page at offset " + std::to_string(page.page * redo_page) + " of " +
                                   page.in->path() + " is not what the transaction wrote that wrote it in bulk");
  }

  // The backup is complete when the log has its name.
  void complete() {
    std::map<std::string, segment*> opened;
    for (const auto& [path, s] : segments_) {
      s->opened().forget_bulk_notes();
      opened.emplace(path, &s->opened());
      if (!how_.verify) continue;
      if (const auto bad = s->opened().verify(how_.on_progress); !bad.empty())
        throw error(errc::damaged, s->path() + ": the page at offset " + std::to_string(bad.front()) +
                                       " of the backup does not match its checksum, nor will it in the original: "
                                       "verify that");
    }
    write_note();
    require_same_log();
    make_closed_log(disk_, to_, manifest_, own_id_, tail_, opened);
  }

  void write_note() {
    backup_note note;
    note.log_id = log_->id();
    note.own_id = own_id_;
    note.from = note.to = tail_;
    note.transaction = report_.transaction;
    note.time = report_.time;
    note.made = made_;
    note.label = report_.label;
    for (const auto& [path, s] : segments_) {
      const auto listed = std::ranges::find_if(manifest_.segments, [&path = path, &s = s](const listed_segment& each) {
        return each.path_text == path && each.is_raw() == s->is_raw();
      });
      note.segments.push_back(
          {path, s->is_raw(), listed != manifest_.segments.end() ? listed->membership : not_a_member, s->header()});
    }
    write_backup_note(disk_, to_, note);
  }

  os::disk& disk_;
  const std::string from_, directory_, to_;
  const backup_options& how_;
  const std::function<void()>& require_whole_;
  identity log_id_{};
  backup_report report_;
  std::unique_ptr<log_files> log_;
  std::vector<segment_name> changed_;  // in the log
  identity own_id_{};                  // of the copy: what is committed there is another history
  manifest manifest_{};
  lsn tail_ = 0, scanned_ = 0;
  std::int64_t made_ = 0;  // when the tail was found
  std::uint64_t total_ = 0;
  std::map<std::string, std::unique_ptr<copied_segment>> segments_;  // by logged path
  std::set<std::string> seen_;  // the paths of segments that were there: what is gone later was removed on purpose
};

}  // namespace

backup_report back_up(os::disk& disk, const std::string& log_path, const std::string& directory,
                      const backup_options& how, const std::function<void()>& require_whole) {
  if (!how.since.empty()) return back_up_since(disk, log_path, directory, how);
  return backing_up(disk, log_path, directory, how, require_whole).run();
}

}  // namespace tenure::rvm
