// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include <tenure/upgrade.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <tenure/error.hpp>

#include "log/unfinished.hpp"
#include "objects/format.hpp"
#include "os/process.hpp"
#include "records/log_reader.hpp"
#include "replay/backup_note.hpp"
#include "replay/closed_log.hpp"
#include "replay/copied_segment.hpp"
#include "replay/redo.hpp"
#include "segments/segment.hpp"
#include "segments/segment_table.hpp"
#include "upgrade/first_database.hpp"
#include "upgrade/first_log.hpp"

namespace tenure {

namespace upgrading {

namespace {

using namespace rvm;

// What a crash has left of a file that was never whole (log/new_file.hpp).
bool is_being_made(const std::string& name) { return name.ends_with(name_while_made("")); }
std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }
std::string name_in_directory(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The log of a store's directory, or the log itself.
std::string log_at(os::disk& disk, const std::string& path) {
  if (disk.exists(path + "/log")) return path + "/log";
  try {
    return disk.names_in(path).empty() ? path : path + "/log";
  } catch (const error& e) {
    if (e.code() != std::errc::not_a_directory) throw;
    return path;
  }
}

// A segment of the original, and what is made of it.
struct upgraded_segment {
  std::string from, to;
  std::string logged;  // in the new log's records
  bool raw = false;
  bool is_database = false;
  segment_header header{};  // of the original
  std::unique_ptr<segment> source, target;
};

// One upgrade [upgrade.whole].
class upgrade_of_log {
 public:
  upgrade_of_log(os::disk& disk, const std::string& path, const std::string& directory, const upgrade_options& how)
      : disk_(disk),
        how_(how),
        log_(disk, log_at(disk, os::absolute_path(path))),
        from_(directory_of(log_.path())),
        directory_(os::absolute_path(directory)),
        to_(directory_ + "/" + name_in_directory(log_.path())),
        status_(log_.as_manifest()) {
    os::random_bytes(own_id_);
  }

  upgrade_report run() {
    const auto began = std::chrono::steady_clock::now();
    find_live_part();
    find_segments();
    require_all_known();
    find_changed_pages();
    make_empty_directory(disk_, directory_, "an upgrade");
    make_marked(disk_, to_, [&] {
      for (auto& s : segments_) copy(s);
      apply_live_part();
      upgrade_databases();
      complete();
    });
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return std::move(report_);
  }

 private:
  // --- What there is -------------------------------------------------------------------------------------------------

  void find_live_part() {
    live_ = {status_.head, status_.tail, 0};
    if (status_.clean != 0) return require_newest(log_, status_);
    const log_tail end = find_tail(log_, status_, how_.on_progress);
    live_.to = end.tail;
    live_.last_group = end.last_group;
    report_.leftover_records = end.torn_groups;
  }

  template <class F>
  void for_each_live_group(F&& f) {
    if (live_.length() == 0) return;
    read_backwards(log_, live_, [&](const group_view& group) {
      f(group);
      return true;
    });
  }

  void find_segments() {
    for (const std::string& path : how_.segments) {
      const std::string absolute = os::absolute_path(path);
      if (find_source(absolute) != nullptr) continue;
      if (has_mark_of_segment(absolute))
        add_formatted(absolute, name_in_directory(absolute), true);
      else
        add_raw(absolute, name_in_directory(absolute));
    }
    std::set<identity> named;
    for (const upgraded_segment& s : segments_)
      if (!s.raw) named.insert(s.header.segment_id);
    for (const std::string& name : disk_.names_in(from_.substr(0, std::max<std::size_t>(from_.size() - 1, 1)))) {
      const std::string path = from_ + name;
      if (is_being_made(name) || find_source(path) != nullptr || !has_mark_of_segment(path)) continue;
      // A copy of one that was named stays out.
      if (!named.contains(read_segment_header(disk_, path).segment_id)) add_formatted(path, name, false);
    }
    require_different();
    for_each_live_group([&](const group_view& group) {
      for (const segment_name& name : group.segments()) add_named(name);
    });
    std::ranges::sort(segments_, {}, &upgraded_segment::logged);
    for (std::size_t n = 1; n < segments_.size(); ++n)
      if (segments_[n].logged == segments_[n - 1].logged)
        throw error(errc::bad_option, segments_[n].from + " and " + segments_[n - 1].from +
                                          ": would have the same name in the new directory; rename one of them");
  }

  // The log's changes are for one of them, and it does not say which.
  void require_different() const {
    std::map<identity, const upgraded_segment*> all;
    for (const upgraded_segment& s : segments_) {
      if (s.raw) continue;
      const auto [other, is_first] = all.emplace(s.header.segment_id, &s);
      if (!is_first)
        throw error(errc::wrong_log, s.from + ": is the same segment as " + other->second->from +
                                         ": one of them is a copy; move it to another directory, or name the one to "
                                         "upgrade (--segment)");
    }
  }

  bool has_mark_of_segment(const std::string& path) {
    try {
      const auto file = disk_.open(path, os::access::read_only);
      for (const std::uint64_t at : {0, 4096}) {
        std::uint64_t magic = 0;
        if (file->read_at(at, std::as_writable_bytes(std::span(&magic, 1))) == sizeof magic && magic == segment_magic)
          return true;
      }
      return false;
    } catch (const error& e) {  // a directory, a pipe, a link to nowhere
      if (e.code() != std::errc::is_a_directory && e.code() != std::errc::invalid_argument &&
          e.code() != std::errc::no_such_file_or_directory)
        throw;
      return false;
    }
  }

  // Those of other logs stay out, unless they were asked for.
  void add_formatted(const std::string& from, const std::string& logged, bool is_wanted) {
    const segment_header h = read_segment_header(disk_, from);
    if (h.log_id != log_.id()) {
      const bool was_changed = h.log_id != identity{};
      if (!is_wanted && (!was_changed || h.tag != heap::database_tag)) return;
      if (h.in_log != 0 || (was_changed && h.tag == heap::database_tag))
        throw error(errc::wrong_log, from +
                                         ": its last changes were made under another log, and may wait there; upgrade "
                                         "it with that log");
    }
    upgraded_segment& s = segments_.emplace_back();
    s.from = from;
    s.logged = logged;
    s.to = directory_ + "/" + logged;
    s.header = h;
    s.is_database = h.tag == heap::database_tag;
    s.source = std::make_unique<segment>(disk_, from, logged, os::access::read_only, false);
  }
  void add_raw(const std::string& from, const std::string& logged) {
    upgraded_segment& s = segments_.emplace_back();
    s.from = from;
    s.logged = logged;
    s.to = directory_ + "/" + logged;
    s.raw = true;
    s.source = std::make_unique<segment>(disk_, from, logged, os::access::read_only, true);
  }
  // That the log has changes for.
  void add_named(const segment_name& name) {
    if (find_named(name) != nullptr) return;
    const std::string path = absolute_segment_path(log_.path(), name.path);
    if (name.path.starts_with('/'))
      throw error(errc::segment_missing, path + ": the log " + log_.path() +
                                             " has committed changes for this segment, which is not in its directory; "
                                             "name it with the upgrade (--segment)");
    if (!disk_.exists(path))
      throw error(errc::segment_missing,
                  path + ": the log " + log_.path() +
                      " has committed changes for this segment, which does not exist; put it back where it was" +
                      (name.raw ? ": a raw segment is known by its path" : ""));
    if (name.raw) return add_raw(path, name.path);
    if (!has_mark_of_segment(path))
      throw error(errc::wrong_log, path + ": is not the segment that the log " + log_.path() +
                                       " has committed changes for; put the right one back");
    add_formatted(path, name.path, true);
    if (find_named(name) == nullptr)
      throw error(errc::wrong_log, path + ": is not the segment that the log " + log_.path() +
                                       " has committed changes for; put the right one back");
  }

  upgraded_segment* find_source(const std::string& path) {
    const auto at = std::ranges::find(segments_, path, &upgraded_segment::from);
    return at != segments_.end() ? &*at : nullptr;
  }
  upgraded_segment* find_named(const segment_name& name) {
    const std::string path = absolute_segment_path(log_.path(), name.path);
    for (upgraded_segment& s : segments_)
      if (name.raw ? s.raw && s.from == path : !s.raw && s.header.segment_id == name.id) return &s;
    return nullptr;
  }

  // Files of different moments are refused, as they are when a log is opened.
  void require_all_known() {
    const first_status& status = log_.status();
    for (std::uint32_t n = 0; n < status.mark_count; ++n) {
      const segment_mark& mark = status.marks[n];
      const auto found = std::ranges::find_if(segments_, [&](const upgraded_segment& s) {
        return !s.raw && std::ranges::equal(mark.segment, std::span(s.header.segment_id).first(mark.segment.size()));
      });
      if (found == segments_.end()) {
        if (how_.without_missing) continue;
        // A store needs all of its databases.
        const bool is_store = std::ranges::any_of(segments_, &upgraded_segment::is_database);
        throw error(errc::segment_missing,
                    log_.path() +
                        ": the log knows of a segment that is not beside it, nor among those that were named; "
                        "put it back, or name it (--segment)" +
                        (is_store ? "" : ", or go on without it (--without-missing)"));
      }
      if (found->source->applied() != 0 && found->source->applied() < mark.applied)
        throw error(errc::wrong_log, found->from + ": is an older copy: it has the changes of the log " + log_.path() +
                                         " up to LSN " + std::to_string(found->source->applied()) +
                                         ", and the log knows that they were in it up to LSN " +
                                         std::to_string(mark.applied) + "; put files of the same moment in place");
    }
    for (const upgraded_segment& s : segments_)
      if (!s.raw && s.header.log_id == log_.id() && s.source->applied() > live_.to)
        throw error(errc::wrong_log, s.from + ": has changes of the log " + log_.path() + " up to LSN " +
                                         std::to_string(s.source->applied()) + ", but the log ends at LSN " +
                                         std::to_string(live_.to) +
                                         ": it is an older copy of the log, or they were copied while they were in "
                                         "use; put files of the same moment in place");
  }

  // Pages that a truncation may have been writing when the last process ended: they need not match their checksums.
  void find_changed_pages() {
    for_each_live_group([&](const group_view& group) {
      for (const transaction_view& tx : group.transactions())
        for (const range_view& range : tx.ranges) {
          const upgraded_segment* const s = find_named(group.segments()[range.segment]);
          if (s == nullptr || s->raw || range.value.empty()) continue;
          if (const lsn through = s->source->applied(); through != 0 && group.header().lsn >= through) continue;
          for (std::uint64_t page = range.offset / redo_page;
               page <= (range.offset + range.value.size() - 1) / redo_page; ++page)
            half_written_.emplace(s, page);
        }
    });
  }

  // --- What is made --------------------------------------------------------------------------------------------------

  void copy(upgraded_segment& s) {
    make_directories(disk_, directory_, s.logged);
    if (s.raw) {
      copied_segment copied(disk_, s.from, s.to, s.logged, true, status_.permissions);
      copied.copy([&](std::uint64_t bytes) { count(bytes); });
      copied.open(own_id_, to_, live_.to);
      s.target = copied.take();
      disk_.sync_directory_of(s.to);
    } else {
      segment_header like = s.header;
      like.version = segment_format_version;
      like.is_member = s.is_database ? 1 : 0;
      like.first_piece = segment_layout::first_piece_for(like.length, like.max_length);
      like.data_offset = segment_layout::data_offset_for(like.max_length, like.first_piece);
      segment::create_like(disk_, s.to, like, like.length, status_.permissions);
      s.target = std::make_unique<segment>(disk_, s.to, s.logged, os::access::read_write, false);
      // Until the upgrade is complete, no other log may be used on it.
      s.target->note_in_log(own_id_, to_, s.source->applied() != 0 ? s.source->applied() : live_.to);
      copy_pages(s);
      s.target.reset();
      s.target = std::make_unique<segment>(disk_, s.to, s.logged, os::access::read_write, false);
    }
    report_.files.push_back(s.to);
  }

  void copy_pages(upgraded_segment& s) {
    std::vector<std::byte> buffer(1 << 20);
    const std::uint64_t length = s.source->length();
    for (std::uint64_t at = 0; at < length; at += buffer.size()) {
      const auto part =
          os::bytes(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), length - at)));
      s.source->read(at, part);
      // Pages of zeros are left out: so they are in the new file.
      std::size_t from = 0, n = 0;
      const auto write = [&] {
        if (from != n) s.target->write_pages((at + from) / redo_page, part.subspan(from, n - from));
      };
      for (; n < part.size(); n += redo_page) {
        const auto page = part.subspan(n, redo_page);
        require_sound(s, (at + n) / redo_page, page);
        if (!std::ranges::all_of(page, [](std::byte b) { return b == std::byte{}; })) continue;
        write();
        from = n + redo_page;
      }
      write();
      count(part.size());
    }
    s.target->finish_writes();
  }

  void require_sound(const upgraded_segment& s, std::uint64_t page, os::const_bytes bytes) {
    const segment::page_state state = s.source->check(page, bytes);
    if (state == segment::page_state::sound) return;
    if (state == segment::page_state::damaged && half_written_.contains({&s, page})) return;
    throw error(errc::damaged, s.from + ": the page at offset " + std::to_string(page * redo_page) +
                                   " does not match its checksum; restore the segment from a backup of that format, "
                                   "and upgrade that");
  }

  void count(std::uint64_t bytes) {
    report_.bytes += bytes;
    if (!how_.on_progress) return;
    std::uint64_t total = 0;
    for (const upgraded_segment& s : segments_) total += s.source->length();
    how_.on_progress({"copying", report_.bytes, std::max(total, report_.bytes)});
  }

  void apply_live_part() {
    if (live_.length() == 0) return;
    recovery_report done;
    replay(log_, live_,
           {.resolve = [&](const segment_name& name) { return find_named(name)->target.get(); },
            .memory = how_.memory,
            .may_have_extents = (status_.incompatible & feature_bulk_runs) != 0,
            .progress = how_.on_progress,
            .damaged =
                [&](const std::vector<page_ref>& pages) {
                  for (const page_ref& page : pages) require_under_way(page);
                }},
           done);
    report_.transactions = done.transactions;
  }

  // A bulk write that was under way, and is in no record, may have overwritten a page that an earlier transaction wrote in bulk, and
  // has freed.
  void require_under_way(const page_ref& page) {
    const auto in = std::ranges::find(segments_, page.in, [](const upgraded_segment& s) { return s.target.get(); });
    const auto notes = std::span(in->header.bulk).first(in->header.bulk_count);
    if (std::ranges::any_of(notes, [&](const bulk_note& n) {
          return n.page <= page.page && page.page < n.page + n.pages && n.transaction != 0 && !is_in_log(n.transaction);
        }))
      return;
    throw error(errc::damaged, log_.path() + ": the page at offset " + std::to_string(page.page * redo_page) + " of " +
                                   page.in->logged_path() +
                                   " is not what the transaction wrote that wrote it in bulk; restore log and segments "
                                   "from a backup, of one moment");
  }
  [[nodiscard]] bool is_in_log(std::uint64_t transaction) {
    bool found = false;
    for_each_live_group([&](const group_view& group) {
      for (const transaction_view& tx : group.transactions()) found |= tx.id == transaction;
    });
    return found;
  }

  void upgrade_databases() {
    std::vector<std::pair<std::string, upgraded_database>> made;
    for (upgraded_segment& s : segments_) {
      if (!s.is_database) continue;
      upgraded_database d = upgrade_database(*s.target);
      if (d.is_blank)
        throw error(errc::damaged, s.from +
                                       ": nothing was ever committed to this database: a crash interrupted its "
                                       "creation, or it was lost; remove it if the store never had it, or put the "
                                       "right one back");
      ++report_.databases;
      list_member(s);
      made.emplace_back(s.logged, std::move(d));
    }
    if (made.empty()) return;
    // Each database belongs to the store, and none is missing.
    for (const auto& [file, d] : made) {
      if (d.store != store_of(made))
        throw error(errc::wrong_log, from_ + file + ": belongs to another store; put the right one back");
      for (const auto& other : d.databases) {
        const auto at = std::ranges::find_if(made, [&](const auto& m) { return m.first == other.name + ".db"; });
        if (at == made.end() || at->second.id != other.id)
          throw error(errc::segment_missing, from_ + other.name +
                                                 ".db: this database of the store is missing, or is another one's "
                                                 "file; put it back, and all files of the same moment");
      }
    }
  }
  // The identity of the default database.
  [[nodiscard]] database_id store_of(const std::vector<std::pair<std::string, upgraded_database>>& all) const {
    for (const auto& [file, d] : all)
      if (file == "main.db") return d.id;
    throw error(errc::segment_missing,
                from_ +
                    "main.db: the store's default database is missing; put it back, and all files of the same "
                    "moment");
  }
  void list_member(const upgraded_segment& s) {
    listed_segment listed{};
    listed.id = s.header.segment_id;
    listed.membership = full_member;
    listed.path_text = s.logged;
    status_.segments.push_back(std::move(listed));
  }

  // It is complete when the log has its name.
  void complete() {
    std::map<std::string, segment*> opened;
    for (const upgraded_segment& s : segments_) {
      opened.emplace(s.logged, s.target.get());
      if (!how_.verify) continue;
      if (const auto bad = s.target->verify(how_.on_progress); !bad.empty())
        throw error(errc::damaged, s.to + ": the page at offset " + std::to_string(bad.front()) +
                                       " does not match its checksum, though it was just written: the disk is failing");
    }
    status_.incompatible = 0;
    make_closed_log(disk_, to_, status_, own_id_, live_.to, opened);
  }

  os::disk& disk_;
  const upgrade_options& how_;
  const first_log log_;
  const std::string from_, directory_, to_;
  manifest status_;    // like which the new log is made
  identity own_id_{};  // of the new log
  log_part live_{};
  std::vector<upgraded_segment> segments_;
  std::set<std::pair<const upgraded_segment*, std::uint64_t>> half_written_;
  upgrade_report report_;
};

}  // namespace

}  // namespace upgrading

upgrade_report upgrade(const std::string& path, const std::string& directory, const upgrade_options& how) {
  os::disk& disk = how.disk != nullptr ? *how.disk : os::real_disk();
  return upgrading::upgrade_of_log(disk, path, directory, how).run();
}

}  // namespace tenure
