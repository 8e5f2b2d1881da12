// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// tenure log replay: a segment as it was at a moment.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/rvm.hpp>

#include "history_changes.hpp"
#include "json_text.hpp"
#include "log/new_file.hpp"
#include "log_command.hpp"
#include "os/process.hpp"
#include "segments/segment.hpp"

namespace tenure::tools {

using namespace rvm;
using json = nlohmann::ordered_json;

namespace {

// A copy of a segment, brought to what it was at a moment.
class replayed_segment {
 public:
  replayed_segment(os::disk& disk, const history_place& where, const std::string& segment_path,
                   const std::string& until, const std::string& output, const std::string& base)
      : where_(where),
        end_(moment::parse(until)),
        now_(named_segment::look_at(disk, segment_path, !where.log.empty())),
        source_(base.empty() ? now_ : older_copy(disk, base, now_)),
        of_itself_(base.empty()),
        source_has_(source_.is_copied_through(disk, now_.log_id)),
        made_(os::absolute_path(output)),
        past_(disk, log_of(disk, where, now_), where.archive, where.progress),
        // A raw segment may end within a page.
        whole_(now_.raw ? round_up(now_.length, redo_page) : round_down(now_.length, redo_page)),
        // First a copy of what there is, then the changes: what gets into the file meanwhile is in the log before.
        from_(disk.open(source_.path, os::access::read_only)),
        head_(log_files::open_unlocked(disk, past_.log_path())->status().head),
        making_(make(disk)),
        to_(disk, making_, made_, os::access::read_write, now_.raw) {
    try {
      fill();
      disk.rename_to_new(making_, made_);  // before, it would open as a whole segment
      disk.sync_directory_of(made_);
    } catch (...) {
      try {
        if (disk.exists(making_)) disk.remove(making_);
      } catch (const error&) {  // why it could not be made is what counts
      }
      throw;
    }
    begins_later_ = taken_.may_be_before(past_);
    is_too_old_ = copied_through() != 0 && copied_through() < std::min(past_.begin(), now_.applied);
  }

  // Whether all of it is known to be what it was then.
  [[nodiscard]] bool is_exact() const {
    return (is_complete_ || unknown_ == 0) && !begins_later_ && !is_too_old_ && source_has_ && missing_.empty() &&
           unsound_.empty() && !is_of_namesake() && !taken_.divides_batch();
  }
  [[nodiscard]] json report() const {
    return {{"output", made_},
            {"transactions", transactions_},
            {"last", last_},
            {"begin", past_.begin()},
            {"unknown_bytes", is_complete_ ? 0 : unknown_},
            {"begins_later", begins_later_},
            {"base_too_old", is_too_old_},
            {"base_unknown", !source_has_},
            {"name_of_another", is_of_namesake()},
            {"within_batch", taken_.divides_batch()},
            {"damaged_pages", unsound_},
            {"missing", gaps_json(missing_)}};
  }
  void print(std::FILE* out) const {
    fmt::print(out, "{}: the segment as it was {} {}, with {} records of this history, which begins at LSN {}\n", made_,
               end_.at ? "at LSN" : "at", end_.text, transactions_, past_.begin());
    if (begins_later_)
      fmt::print(
          out, "UNKNOWN  the history begins at LSN {}, {} behind that moment: the copy may have changes from between\n",
          past_.begin(), end_.at ? "which is" : "perhaps");
    if (is_too_old_)
      fmt::print(
          out, "UNKNOWN  what was committed between LSN {} and {}: {} may not have it, and the history begins later\n",
          copied_through(), past_.begin(), source_.path);
    if (!source_has_)
      fmt::print(out,
                 "UNKNOWN  of which moment {} is: it is used with another log, and no backup that nobody has changed\n",
                 source_.path);
    if (!is_complete_ && unknown_ != 0)
      fmt::print(
          out,
          "UNKNOWN  {} bytes changed later, and neither log nor archive has their values of then: they are zero. "
          "Give an older copy of the segment with --base\n",
          unknown_);
    if (taken_.divides_batch())
      fmt::print(out,
                 "UNKNOWN  the moment lies between transactions that became durable together, of which some are in no "
                 "history, as "
                 "later ones have overwritten all of theirs: the copy may lack their bytes\n");
    if (is_of_namesake())
      fmt::print(out, "UNKNOWN  another segment had the name {} then, or before: this one was made later\n", now_.path);
    if (!unsound_.empty())
      fmt::print(out,
                 "DAMAGED  {} pages of {}, the first at offset {} of the data, do not match their checksums, and the "
                 "history does not "
                 "have all of their bytes: they are marked as damaged in the copy, too\n",
                 unsound_.size(), source_.path, *unsound_.begin() * redo_page);
    print_gaps(out, missing_);
  }

 private:
  static named_segment older_copy(os::disk& disk, const std::string& base, const named_segment& of) {
    named_segment found = named_segment::look_at(disk, base, of.raw);
    if (found.log_id != identity{} && found.id != of.id)
      throw error(errc::wrong_log, found.path + ": is no copy of " + of.path + ", but another segment");
    return found;
  }

  void fill() {
    copy();
    read_changes();
    for (const archive_gap& gap : past_.gaps())
      if (gap.to > bridged_ && !is_behind(gap)) missing_.push_back(gap);
    // Where the history is complete, what has no earlier value was zero, if the segment was made under this log.
    is_complete_ = past_.is_complete() && !bulk_unknown_ && !has_earlier();
    put_values();
    keep_damage();
    to_.finish_writes();
  }

  // Returns its name while it is made [rvm.file.making].
  std::string make(os::disk& disk) const {
    if (!now_.raw) return segment::begin(disk, made_, {.length = now_.length});
    if (disk.exists(made_))
      throw error(std::make_error_code(std::errc::file_exists),
                  made_ + ": there is a file already; remove it or choose another name");
    new_file making(disk, made_, 0600);
    making.file().resize(now_.length);
    return making.leave();
  }

  // The checksum that the source has of a page.
  [[nodiscard]] std::uint32_t checksum_of(std::uint64_t page) {
    const auto [block, index] = source_.layout.checksum_of(page);
    if (checksum_block_ != block) {
      checksums_.assign(segment_layout::checksums_per_block, 0);
      (void)from_->read_at(block, std::as_writable_bytes(std::span(checksums_)));
      checksum_block_ = block;
    }
    return checksums_[index];
  }
  void look_for_damage(std::uint64_t first_page, os::const_bytes pages) {
    for (std::uint64_t n = 0; n < pages.size() / redo_page; ++n)
      if (stored_checksum(pages.subspan(n * redo_page, redo_page)) != checksum_of(first_page + n))
        unsound_.insert(first_page + n);
  }
  // What was written meanwhile, or half-written when a process ended, is in the log. The rest stays damaged in the copy.
  void keep_damage() {
    std::vector<std::byte> value(redo_page);
    std::erase_if(unsound_, [&](std::uint64_t page) {
      std::uint64_t known = 0;
      before_.for_each(page * redo_page, redo_page, [&](std::uint64_t, std::byte) { ++known; });
      if (known == redo_page || half_written_.contains(page)) return true;
      checksum_block_ = 0;
      source_.layout.for_each_part(page * redo_page, redo_page,
                                   [&](const segment_layout::part& part, std::uint64_t done) {
                                     (void)from_->read_at(part.at, os::bytes(value).subspan(done, part.length));
                                   });
      return stored_checksum(value) == checksum_of(page);
    });
    for (const std::uint64_t page : unsound_) to_.mark_still_damaged(page);
  }

  void copy() {
    if (!source_.raw && from_->size() < source_.layout.file_length(source_.length))
      throw error(errc::segment_too_short, source_.path + ": the file was cut off: it has " +
                                               std::to_string(from_->size()) + " bytes, and should have " +
                                               std::to_string(source_.layout.file_length(source_.length)) +
                                               "; restore it from a backup");
    constexpr std::uint64_t at_once = std::uint64_t{1} << 20;
    std::vector<std::byte> buffer(at_once);
    for (std::uint64_t at = 0; at < whole_; at += at_once) {
      const auto part = os::bytes(buffer).first(std::min(at_once, whole_ - at));
      std::ranges::fill(part, std::byte{0});
      if (at < source_.length)
        source_.layout.for_each_part(at, std::min<std::uint64_t>(part.size(), source_.length - at),
                                     [&](const segment_layout::part& of_file, std::uint64_t done) {
                                       (void)from_->read_at(of_file.at, part.subspan(done, of_file.length));
                                     });
      if (!source_.raw && at < source_.length)
        look_for_damage(at / redo_page, part.first(std::min<std::uint64_t>(part.size(), source_.length - at)));
      to_.write_pages(at / redo_page, part);
    }
  }

  // What the copy surely has lies before.
  [[nodiscard]] lsn copied_through() const { return source_has_.value_or(0); }
  // Whether it may have a change: what there is now has all.
  [[nodiscard]] bool is_copied(lsn at) const { return of_itself_ || at < copied_through(); }

  // Whether nothing of the gap is in the copy, nor wanted.
  [[nodiscard]] bool is_behind(const archive_gap& gap) const {
    const bool is_later = end_.at ? gap.from > *end_.at : first_behind_ != 0 && first_behind_ <= gap.from;
    return is_later && !of_itself_ && copied_through() != 0 && copied_through() <= gap.from;
  }
  // Whether the name is all that says that it is the segment that is meant.
  [[nodiscard]] bool is_of_namesake() const { return transactions_ == 0 && past_.has_namesake(); }
  // Of a record that the segment's file may have in part.
  void note_half_written(lsn at, std::uint64_t offset, std::uint64_t length) {
    if (at < head_ || at >= source_.applied) return;
    for (std::uint64_t page = offset / redo_page; page <= (offset + length - 1) / redo_page; ++page)
      half_written_.insert(page);
  }

  // Of gaps that end before a record that is taken, if the copy has what they lack: earlier values may be too old.
  void bridge_gaps(lsn before) {
    if (!taken_.takes()) return;
    for (const archive_gap& gap : past_.gaps()) {
      if (gap.to <= bridged_ || gap.to > before || gap.to > copied_through()) continue;
      bridged_ = gap.to;
      before_ = {};
    }
  }

  void read_changes() {
    for_each_change(
        past_, {&now_, 0, whole_},
        [&](const transaction_view& tx, lsn at, const group_header& in) {
          taken_.see(tx, at, in);
          if (!taken_.takes() && first_behind_ == 0) first_behind_ = at;
          bridge_gaps(at);
        },
        [&](const transaction_view&, lsn at, std::uint64_t offset, os::const_bytes value) {
          note_half_written(at, offset, value.size());
          if (taken_.takes()) {
            before_.set(offset, value);
            transactions_ += at != last_;
            last_ = at;
          } else if (is_copied(at)) {
            after_.set(offset, value);
          }
        },
        [&](const transaction_view&, lsn at, std::uint64_t offset, std::uint64_t length) {
          const bool is_taken = taken_.takes();
          if (is_taken) before_.forget(offset, length);
          bulk_unknown_ = true;
          note_half_written(at, offset, length);
          // The segment has the bytes, if nothing changed them later; of an older copy nobody knows.
          if (is_taken ? of_itself_ : !is_copied(at)) return;
          const std::vector<std::byte> page(redo_page);
          for (std::uint64_t done = 0; done < length; done += redo_page) after_.set(offset + done, page);
        });
    if (!end_.time) bridge_gaps(end_.at.value_or(0));
    where_.hide_progress();
  }

  // Whether the segment was used before this log: a raw one may have been, and others have something that the log never wrote.
  [[nodiscard]] bool has_earlier() {
    if (now_.raw) return true;
    std::vector<std::byte> value(redo_page);
    for (std::uint64_t at = 0; at < whole_; at += redo_page) {
      to_.read(at, value);
      for (const known_bytes* const known : {&before_, &after_})
        known->for_each(at, redo_page, [&](std::uint64_t i, std::byte) { value[i] = std::byte{0}; });
      if (std::ranges::any_of(value, [](std::byte b) { return b != std::byte{0}; })) return true;
    }
    return false;
  }

  // Of bytes that changed later, nobody may know the value of then: they are zero, what segments are made of.
  void put_values() {
    std::vector<std::uint64_t> pages = before_.pages();
    for (const std::uint64_t page : after_.pages())
      if (!before_.has(page)) pages.push_back(page);
    std::vector<std::byte> value(redo_page);
    for (const std::uint64_t page : pages) {
      to_.read(page * redo_page, value);
      std::vector<bool> lost(redo_page);
      after_.for_each(page * redo_page, redo_page, [&](std::uint64_t i, std::byte) { lost[i] = true; });
      before_.for_each(page * redo_page, redo_page, [&](std::uint64_t i, std::byte b) {
        lost[i] = false;
        value[i] = b;
      });
      for (std::size_t i = 0; i < redo_page; ++i)
        if (lost[i]) value[i] = std::byte{0}, ++unknown_;
      to_.write_pages(page, value);
    }
  }

  const history_place& where_;
  const moment end_;
  const named_segment now_, source_;
  const bool of_itself_;
  const std::optional<lsn> source_has_;
  const std::string made_;
  history past_;
  const std::uint64_t whole_;
  const std::unique_ptr<os::file> from_;
  const lsn head_;  // of the log, before the copy was made
  const std::string making_;
  segment to_;
  prefix taken_{end_};
  known_bytes before_, after_;  // what was written up to the moment, and behind it
  std::uint64_t transactions_ = 0, unknown_ = 0;
  lsn last_ = 0;
  lsn bridged_ = 0;                   // of the last gap that the copy has bridged, the end
  std::vector<archive_gap> missing_;  // that it has not
  lsn first_behind_ = 0;              // the first record that is not taken
  std::set<std::uint64_t> unsound_;   // pages of the copy's source that do not match their checksums
  std::set<std::uint64_t> half_written_;
  std::uint64_t checksum_block_ = 0;  // the one that was read last
  std::vector<std::uint32_t> checksums_;
  bool bulk_unknown_ = false, is_complete_ = false, begins_later_ = false, is_too_old_ = false;
};

}  // namespace

int replay_history(os::disk& disk, const history_place& where, const std::string& segment_path,
                   const std::string& until, const std::string& output, const std::string& base, bool as_json,
                   std::FILE* out) {
  const replayed_segment made(disk, where, segment_path, until, output, base);
  if (as_json)
    fmt::print(out, "{}\n", json_text(made.report(), 2));
  else
    made.print(out);
  return made.is_exact() ? exit_ok : exit_damaged;
}

}  // namespace tenure::tools
