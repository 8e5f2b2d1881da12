// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "history_command.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <tenure/rvm.hpp>

#include "history_changes.hpp"
#include "json_text.hpp"
#include "log_command.hpp"
#include "log_text.hpp"
#include "object_values.hpp"
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
                     tx.label.empty() ? "" : "  " + quoted(std::string(tx.label)));
}

}  // namespace

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
  bool begins_later = false, divides_batch = false;
  {
    prefix before(first), after(second);
    for_each_change(
        past, which,
        [&](const transaction_view& tx, lsn at, const group_header& in) {
          before.see(tx, at, in);
          after.see(tx, at, in);
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
    divides_batch = before.divides_batch() || after.divides_batch();
  }
  {
    prefix before(first);
    const auto see = [&](const transaction_view& tx, lsn at, const group_header& in) { before.see(tx, at, in); };
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
    if (divides_batch)
      fmt::print(out,
                 "UNKNOWN  a moment lies between transactions that became durable together, of which some are in no "
                 "history, as later ones have overwritten all of theirs\n");
  }
  lines.end(past);
  return begins_later || divides_batch ? exit_damaged : exit_code(past);
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
