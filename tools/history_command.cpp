// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "history_command.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/rvm.hpp>

#include "json_text.hpp"
#include "log_command.hpp"
#include "log_text.hpp"
#include "os/process.hpp"
#include "records/archive_cut.hpp"
#include "records/log_reader.hpp"
#include "segments/segment.hpp"

namespace tenure::tools {

using namespace rvm;
using json = nlohmann::ordered_json;

namespace {

struct byte_range {
  std::string path;
  std::uint64_t from = 0, to = ~std::uint64_t{0};
};

std::uint64_t number(std::string_view text, const std::string& all) {
  const bool hex = text.starts_with("0x");
  std::uint64_t value = 0;
  const std::string_view digits = hex ? text.substr(2) : text;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (code != std::errc{} || end != digits.data() + digits.size() || digits.empty())
    throw error(errc::bad_option, "\"" + all + "\": \"" + std::string(text) +
                                      "\" is no number; a range is SEGMENT:OFFSET+LENGTH or SEGMENT:FROM-TO");
  return value;
}

byte_range parse_range(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text};
  const std::string_view range = std::string_view(text).substr(colon + 1);
  byte_range made{text.substr(0, colon)};
  if (const auto plus = range.find('+'); plus != range.npos) {
    made.from = number(range.substr(0, plus), text);
    made.to = made.from + number(range.substr(plus + 1), text);
  } else if (const auto minus = range.find('-'); minus != range.npos) {
    made.from = number(range.substr(0, minus), text);
    made.to = number(range.substr(minus + 1), text);
  } else {
    made.from = number(range, text);
    made.to = made.from + 8;
  }
  if (made.from >= made.to) throw error(errc::bad_option, "\"" + text + "\": the range is empty");
  return made;
}

// The log whose history is asked for: one that has the segment's changes.
std::string log_of(os::disk& disk, const history_place& where, const named_segment& segment) {
  if (where.log.empty() && segment.log_path.empty())
    throw error(errc::bad_option, segment.path +
                                      (segment.raw ? ": a raw segment does not know its log"
                                                   : ": this segment was never changed under a log") +
                                      "; name it with --log");
  std::string log = os::absolute_path(where.log.empty() ? segment.log_path : where.log);
  if (segment.log_id != identity{} && log_files::open_unlocked(disk, log)->status().log_id != segment.log_id)
    throw error(errc::wrong_log, segment.path + ": its last changes were made under another log than " + log +
                                     (segment.log_path.empty() ? "" : ": under " + segment.log_path) +
                                     "; name that one, or the segment that belongs to this one");
  return log;
}

// Of the segment's data, which has some of it.
byte_range range_in(const byte_range& range, const named_segment& segment) {
  if (range.from != 0 && range.from >= segment.length)
    throw error(errc::bad_option, segment.path + ": has " + std::to_string(segment.length) +
                                      " bytes of data, and offset " + std::to_string(range.from) + " is behind them");
  return {range.path, range.from, std::min(range.to, segment.length)};
}

int exit_code(const history& of) { return of.gaps().empty() ? exit_ok : exit_damaged; }

// Bytes of which some may not be known.
std::string bytes_text(const known_bytes& known, std::uint64_t offset, std::uint64_t length) {
  std::string text(2 * length, '?');
  known.for_each(offset, length, [&](std::uint64_t i, std::byte value) {
    fmt::format_to(text.begin() + static_cast<std::ptrdiff_t>(2 * i), "{:02x}", std::to_integer<unsigned>(value));
  });
  return text;
}
// For people: long ones are cut.
std::string shown(const std::string& hex) {
  constexpr std::size_t most = 128;
  return hex.size() <= most ? hex : hex.substr(0, most) + fmt::format("... ({} bytes)", hex.size() / 2);
}

std::string kind_of(const transaction_view& tx) { return tx.flags & record_lazy ? "no_flush" : "flush"; }

// Objects of a JSON array, one a line; or nothing.
class json_lines {
 public:
  json_lines(std::FILE* out, bool as_json, const char* name) : out_(out), as_json_(as_json) {
    if (as_json_) fmt::print(out_, "{{\n  \"{}\": [", name);
  }
  void add(const json& line) { fmt::print(out_, "{}\n    {}", any_++ == 0 ? "" : ",", json_text(line, -1)); }
  void end(const history& of) {
    if (as_json_)
      fmt::print(out_, "{}],\n  \"begin\": {},\n  \"missing\": {}\n}}\n", any_ == 0 ? "" : "\n  ", of.begin(),
                 json_text(gaps_json(of.gaps()), -1));
    else
      print_gaps(out_, of.gaps());
  }

 private:
  std::FILE* out_;
  bool as_json_;
  std::uint64_t any_ = 0;
};

json head_json(const transaction_view& tx, lsn at) {
  return {{"lsn", at},
          {"transaction", tx.id},
          {"time", tx.time},
          {"label", tx.label},
          {"flush", (tx.flags & record_lazy) == 0}};
}
std::string head_text(const transaction_view& tx, lsn at) {
  return fmt::format("LSN {}  transaction {}  {}  {}{}", at, tx.id, os::utc_text(tx.time), kind_of(tx),
                     tx.label.empty() ? "" : fmt::format("  \"{}\"", tx.label));
}

// Tells transactions up to a moment from those behind it: a prefix, wherever clocks were set back.
class prefix {
 public:
  explicit prefix(const moment& until) : until_(until) {}
  // Of each record, whichever segment it changes: a transaction is taken or not as a whole, by its first one. That may be in a
  // part of the archive that has nothing wanted, and was not read.
  void see(const transaction_view& tx, lsn at) {
    if ((tx.flags & record_first) == 0 && tx.id == seen_) return;
    seen_ = tx.id;
    over_ = over_ || !until_.includes(at, tx.time);
    any_ = any_ || !over_;
  }
  [[nodiscard]] bool takes() const { return !over_; }
  // Whether the moment may lie before all that the history knows. `of` was walked.
  [[nodiscard]] bool may_be_before(const history& of) const {
    return !of.is_complete() && (until_.at ? *until_.at < of.begin() : !any_);
  }

 private:
  const moment& until_;
  std::uint64_t seen_ = 0;
  bool over_ = false, any_ = false;
};
constexpr auto see_nothing = [](const transaction_view&, lsn) {};

// Calls see(transaction, LSN) for each record that is read; f(transaction, LSN, offset, bytes) for each change of bytes of
// [from, to), cut to them; and g(transaction, LSN, offset, length) for pages that were written straight to the segment: what they
// became the history does not know.
template <class S, class F, class G>
void for_each_change(history& of, const wanted_changes& which, S&& see, F&& f, G&& g) {
  of.walk(which, [&](const group_view& group, os::const_bytes bytes) {
    std::vector<bool> wanted;
    for (const segment_name& name : group.segments()) wanted.push_back(which.segment->is(name, of.log_path()));
    for_each_record(group, bytes, [&](const transaction_view& tx, lsn at) {
      see(tx, at);
      for (const bulk_run_view& run : tx.runs)
        if (wanted[run.segment] && run.offset < which.to && which.from < run.offset + run.length())
          g(tx, at, run.offset, run.length());
      for (const range_view& range : tx.ranges) {
        const std::uint64_t begin = std::max(range.offset, which.from),
                            end = std::min(range.offset + range.value.size(), which.to);
        if (wanted[range.segment] && begin < end)
          f(tx, at, begin, range.value.subspan(begin - range.offset, end - begin));
      }
    });
    return true;
  });
}

}  // namespace

json gaps_json(const std::vector<archive_gap>& gaps) {
  json all = json::array();
  for (const archive_gap& gap : gaps) all.push_back({{"from", gap.from}, {"to", gap.to}, {"reason", gap.reason}});
  return all;
}
void print_gaps(std::FILE* out, const std::vector<archive_gap>& gaps) {
  for (const archive_gap& gap : gaps) fmt::print(out, "MISSING  LSN {} to {}: {}\n", gap.from, gap.to, gap.reason);
}

int show_history(os::disk& disk, const history_place& where, const std::string& range, bool as_json, std::FILE* out) {
  const byte_range asked = parse_range(range);
  const named_segment segment = named_segment::look_at(disk, asked.path, !where.log.empty());
  const byte_range bytes = range_in(asked, segment);
  history past(disk, log_of(disk, where, segment), where.archive, where.progress);
  json_lines lines(out, as_json, "changes");
  known_bytes values;
  lsn last = ~lsn{0};
  for_each_change(
      past, {&segment, bytes.from, bytes.to}, see_nothing,
      [&](const transaction_view& tx, lsn at, std::uint64_t offset, os::const_bytes value) {
        const std::string before = bytes_text(values, offset, value.size()), now = hex_text(value);
        values.set(offset, value);
        where.hide_progress();
        if (as_json) {
          json line = head_json(tx, at);
          line.update({{"offset", offset}, {"old", before}, {"new", now}});
          lines.add(line);
          return;
        }
        if (at != last) fmt::print(out, "{}\n", head_text(tx, at));
        last = at;
        fmt::print(out, "    offset {}: {} -> {}\n", offset, shown(before), shown(now));
      },
      [&](const transaction_view& tx, lsn at, std::uint64_t offset, std::uint64_t length) {
        values.forget(offset, length);
        where.hide_progress();
        if (as_json) {
          json line = head_json(tx, at);
          line.update({{"offset", offset}, {"length", length}, {"bulk", true}});
          lines.add(line);
          return;
        }
        if (at != last) fmt::print(out, "{}\n", head_text(tx, at));
        last = at;
        fmt::print(out, "    offset {}, length {}: written in bulk\n", offset, length);
      });
  if (!as_json)
    fmt::print(out, "{}\n",
               last == ~lsn{0} ? fmt::format("no change since LSN {}, where this history begins", past.begin())
                               : fmt::format("this history begins at LSN {}; ?? are bytes from before", past.begin()));
  lines.end(past);
  return exit_code(past);
}

int search_history(os::disk& disk, const history_place& where, const search_selection& which, bool as_json,
                   std::FILE* out) {
  std::optional<named_segment> segment;
  if (!which.segment.empty()) segment = named_segment::look_at(disk, which.segment, !where.log.empty());
  const moment since = which.since.empty() ? moment{} : moment::parse(which.since);
  const moment until = which.until.empty() ? moment{} : moment::parse(which.until);
  history past(disk, segment ? log_of(disk, where, *segment) : where.log, where.archive, where.progress);
  json_lines lines(out, as_json, "records");
  std::uint64_t found = 0;
  const auto is_in_value = [&](const range_view& range) {
    const auto wanted = std::as_bytes(std::span(which.value));
    return std::search(range.value.begin(), range.value.end(), wanted.begin(), wanted.end()) != range.value.end() ||
           wanted.empty();
  };
  past.walk({segment ? &*segment : nullptr}, [&](const group_view& group, os::const_bytes bytes) {
    for_each_record(group, bytes, [&](const transaction_view& tx, lsn at) {
      if (which.limit && found >= *which.limit) return;
      if (which.transaction && tx.id != *which.transaction) return;
      if (tx.label.find(which.label) == std::string_view::npos) return;
      if (!until.includes(at, tx.time) || (since.at && at < *since.at) || (since.time && tx.time < *since.time)) return;
      std::vector<const range_view*> ranges;
      bool has_value = false;
      for (const range_view& range : tx.ranges) {
        if (segment && !segment->is(group.segments()[range.segment], past.log_path())) continue;
        ranges.push_back(&range);
        has_value = has_value || is_in_value(range);
      }
      std::vector<const bulk_run_view*> runs;
      for (const bulk_run_view& run : tx.runs)
        if (!segment || segment->is(group.segments()[run.segment], past.log_path())) runs.push_back(&run);
      has_value = has_value || (which.value.empty() && !runs.empty());
      if (!has_value) return;
      ++found;
      where.hide_progress();
      json line = head_json(tx, at);
      if (!as_json) fmt::print(out, "{}\n", head_text(tx, at));
      for (const range_view* range : ranges) {
        const std::string& path = group.segments()[range->segment].path;
        if (as_json) {
          json r{{"segment", path}, {"offset", range->offset}, {"length", range->value.size()}};
          if (which.with_data) r["data"] = hex_text(range->value);
          line["ranges"].push_back(std::move(r));
          continue;
        }
        fmt::print(out, "    {}  offset {}  length {}\n", path, range->offset, range->value.size());
        if (which.with_data) fmt::print(out, "{}", dump_text(range->value, range->offset, "      "));
      }
      for (const bulk_run_view* run : runs) {
        const std::string& path = group.segments()[run->segment].path;
        if (as_json)
          line["extents"].push_back({{"segment", path}, {"offset", run->offset}, {"length", run->length()}});
        else
          fmt::print(out, "    {}  offset {}  length {}  written in bulk\n", path, run->offset, run->length());
      }
      if (as_json) lines.add(line);
    });
    return !which.limit || found < *which.limit;
  });
  lines.end(past);
  return exit_code(past);
}

int show_difference(os::disk& disk, const history_place& where, const std::string& range, const std::string& from,
                    const std::string& to, bool as_json, std::FILE* out) {
  const byte_range asked = parse_range(range);
  const moment first = moment::parse(from), second = moment::parse(to);
  const auto refuse_backwards = [&] {
    throw error(errc::bad_option, "the first moment, " + from + ", lies behind the second one, " + to);
  };
  if ((first.at && second.at && *first.at > *second.at) || (first.time && second.time && *first.time > *second.time))
    refuse_backwards();
  const named_segment segment = named_segment::look_at(disk, asked.path, !where.log.empty());
  const byte_range bytes = range_in(asked, segment);
  history past(disk, log_of(disk, where, segment), where.archive, where.progress);
  const wanted_changes which{&segment, bytes.from, bytes.to};
  // What changed in between; then what those pages were before.
  known_bytes then, now;
  struct run {
    std::uint64_t offset, length;
  };
  std::vector<run> bulk;  // in between
  bool begins_later = false;
  {
    prefix before(first), after(second);
    for_each_change(
        past, which,
        [&](const transaction_view& tx, lsn at) {
          before.see(tx, at);
          after.see(tx, at);
          if (before.takes() && !after.takes()) refuse_backwards();
        },
        [&](const transaction_view&, lsn, std::uint64_t offset, os::const_bytes value) {
          if (after.takes() && !before.takes()) now.set(offset, value);
        },
        [&](const transaction_view&, lsn, std::uint64_t offset, std::uint64_t length) {
          if (!after.takes() || before.takes()) return;
          now.forget(offset, length);
          bulk.push_back({offset, length});
        });
    begins_later = before.may_be_before(past);
  }
  {
    prefix before(first);
    const auto see = [&](const transaction_view& tx, lsn at) { before.see(tx, at); };
    const auto forget = [&](const transaction_view&, lsn, std::uint64_t offset, std::uint64_t length) {
      if (before.takes()) then.forget(offset, length);
    };
    const auto take = [&](const transaction_view&, lsn, std::uint64_t offset, os::const_bytes value) {
      if (!before.takes()) return;
      for (std::uint64_t end = offset + value.size(); offset < end;) {
        const std::uint64_t next = std::min(end, (offset / redo_page + 1) * redo_page);
        if (now.has(offset / redo_page)) then.set(offset, value.first(next - offset));
        value = value.subspan(next - offset);
        offset = next;
      }
    };
    for_each_change(past, which, see, take, forget);
  }
  where.hide_progress();
  json_lines lines(out, as_json, "differences");
  std::uint64_t count = 0;
  for (const run& e : bulk)
    if (as_json)
      lines.add({{"offset", e.offset}, {"length", e.length}, {"bulk", true}});
    else
      fmt::print(out, "offset {}, length {}: written in bulk\n", e.offset, e.length);
  for (const std::uint64_t page : now.pages()) {
    // Runs of bytes that differ.
    constexpr int unknown = -1, untouched = -2;
    std::vector<int> old(redo_page, unknown), newer(redo_page, untouched);
    then.for_each(page * redo_page, redo_page, [&](std::uint64_t i, std::byte b) { old[i] = std::to_integer<int>(b); });
    now.for_each(page * redo_page, redo_page,
                 [&](std::uint64_t i, std::byte b) { newer[i] = std::to_integer<int>(b); });
    const auto differs = [&](std::size_t i) { return newer[i] != untouched && newer[i] != old[i]; };
    for (std::size_t i = 0; i < redo_page; ++i) {
      if (!differs(i)) continue;
      std::size_t end = i;
      while (end < redo_page && differs(end)) ++end;
      const std::uint64_t offset = page * redo_page + i;
      const std::string before = bytes_text(then, offset, end - i), after = bytes_text(now, offset, end - i);
      if (as_json)
        lines.add({{"offset", offset}, {"length", end - i}, {"old", before}, {"new", after}});
      else
        fmt::print(out, "offset {}, length {}: {} -> {}\n", offset, end - i, shown(before), shown(after));
      count += end - i;
      i = end;
    }
  }
  if (!as_json) {
    fmt::print(out, "{} bytes differ\n", count);
    if (begins_later)
      fmt::print(
          out, "UNKNOWN  the history begins at LSN {}, {} behind the first moment: what changed between is not there\n",
          past.begin(), first.at ? "which is" : "perhaps");
  }
  lines.end(past);
  return begins_later ? exit_damaged : exit_code(past);
}

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
        to_(make(disk)) {
    copy();
    read_changes();
    for (const archive_gap& gap : past_.gaps())
      if (gap.to > bridged_) missing_.push_back(gap);
    // Where the history is complete, what has no earlier value was zero, if the segment was made under this log.
    is_complete_ = past_.is_complete() && !bulk_unknown_ && !has_earlier();
    put_values();
    to_.finish_writes();
    begins_later_ = taken_.may_be_before(past_);
    is_too_old_ = copied_through() != 0 && copied_through() < std::min(past_.begin(), now_.applied);
  }

  // Whether all of it is known to be what it was then.
  [[nodiscard]] bool is_exact() const {
    return (is_complete_ || unknown_ == 0) && !begins_later_ && !is_too_old_ && source_has_ && missing_.empty();
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
    print_gaps(out, missing_);
  }

 private:
  static named_segment older_copy(os::disk& disk, const std::string& base, const named_segment& of) {
    named_segment found = named_segment::look_at(disk, base, of.raw);
    if (found.log_id != identity{} && found.id != of.id)
      throw error(errc::wrong_log, found.path + ": is no copy of " + of.path + ", but another segment");
    return found;
  }

  segment make(os::disk& disk) const {
    if (now_.raw)
      disk.create(made_, 0600)->resize(now_.length);
    else
      segment::create(disk, made_, {.length = now_.length});
    return {disk, made_, made_, os::access::read_write, now_.raw};
  }

  void copy() {
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
      to_.write_pages(at / redo_page, part);
    }
  }

  // What the copy surely has lies before.
  [[nodiscard]] lsn copied_through() const { return source_has_.value_or(0); }
  // Whether it may have a change: what there is now has all.
  [[nodiscard]] bool is_copied(lsn at) const { return of_itself_ || at < copied_through(); }

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
        [&](const transaction_view& tx, lsn at) {
          taken_.see(tx, at);
          bridge_gaps(at);
        },
        [&](const transaction_view&, lsn at, std::uint64_t offset, os::const_bytes value) {
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
  segment to_;
  prefix taken_{end_};
  known_bytes before_, after_;  // what was written up to the moment, and behind it
  std::uint64_t transactions_ = 0, unknown_ = 0;
  lsn last_ = 0;
  lsn bridged_ = 0;                   // of the last gap that the copy has bridged, the end
  std::vector<archive_gap> missing_;  // that it has not
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

int forget_history(os::disk& disk, const history_place& where, const std::string& at, bool as_json, std::FILE* out) {
  const moment end = moment::parse(at);
  // Its lock keeps everybody from adding to the archive.
  const auto log = log_files::open(disk, os::absolute_path(where.log), os::access::read_write);
  const std::string archive = archive_path(log->path(), where.archive);
  const auto frames = archive_reader(disk, archive, log->status().log_id).frames();
  // The frame that the moment lies in stays, and all behind it.
  lsn begin = 0;
  for (const auto& frame : frames) {
    const bool is_before = end.at ? frame.header.to <= *end.at : frame.header.last_time < *end.time;
    if (!is_before) break;
    begin = frame.header.to;
  }
  const cut_report done = cut_archive(disk, archive, log->status().log_id, begin);
  if (as_json)
    fmt::print(out, "{}\n",
               json_text({{"begin", begin}, {"frames_removed", done.frames}, {"bytes_removed", done.bytes}}, 2));
  else
    fmt::print(out, "{}: {} frames, {} bytes forgotten; the archive now begins at LSN {}\n", archive, done.frames,
               done.bytes, begin != 0 || frames.empty() ? begin : frames.front().header.from);
  return exit_ok;
}

}  // namespace tenure::tools
