// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/group.hpp"

#include <cstring>
#include <string>

#include <tenure/error.hpp>

#include "log/checksum.hpp"

namespace tenure::rvm {

namespace {

// Takes structures from the front of a byte range, and refuses to read beyond its end.
class cursor {
 public:
  cursor(os::const_bytes bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  os::const_bytes take(std::size_t length) {
    if (length > bytes_.size()) fail("a record ends beyond the group");
    const auto front = bytes_.first(length);
    bytes_ = bytes_.subspan(length);
    return front;
  }
  os::const_bytes take_padded(std::uint64_t length) {
    if (length > bytes_.size()) fail("a record ends beyond the group");  // before rounding, which could overflow
    return take(static_cast<std::size_t>(round_up(length, 8))).first(static_cast<std::size_t>(length));
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }
  [[nodiscard]] const std::string& place() const { return place_; }
  // What is intact, but of another version.
  [[noreturn]] void fail_unknown(const std::string& what) const {
    throw error(errc::wrong_version, place_ + ": " + what + ", which this version of the library does not know" +
                                         "; open it with the version that wrote it");
  }
  [[noreturn]] void fail(const char* why) const {
    throw error(errc::damaged, place_ + ": the checksum holds but the content makes no sense: " + why +
                                   "; the log was written by a faulty program");
  }

 private:
  os::const_bytes bytes_;
  const std::string& place_;
};

segment_name parse_segment(cursor& at, const record_header& header, std::uint64_t& length) {
  const auto body = at.take<segment_body>();
  length = std::uint64_t{body.pages} * redo_page;
  const auto path = at.take_padded(header.count);
  return {body.id, body.raw != 0, std::string(reinterpret_cast<const char*>(path.data()), path.size())};
}

void parse_bulk_runs(cursor& at, const record_header& header, std::size_t segments, std::vector<bulk_run_view>& runs) {
  if (header.count > at.left() / sizeof(bulk_run_header)) at.fail("a transaction has more bulk runs than fit");
  runs.reserve(header.count);
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const auto run = at.take<bulk_run_header>();
    if (run.segment >= segments) at.fail("a bulk run belongs to a segment that the group does not name");
    if (run.offset % redo_page != 0 || run.pages == 0) at.fail("a bulk run is not of whole pages");
    if (run.offset + std::uint64_t{run.pages} * redo_page < run.offset)
      at.fail("a bulk run ends beyond the largest offset");
    if ((run.flags & ~run_cleared) != 0) at.fail_unknown("a bulk run has the flags " + std::to_string(run.flags));
    const std::uint64_t checksums =
        (run.flags & run_cleared) != 0 ? 0 : std::uint64_t{run.pages} * sizeof(std::uint32_t);
    runs.push_back({run.segment, run.offset, run.pages, at.take_padded(checksums)});
  }
}

void parse_changes(cursor& at, const record_header& header, std::size_t segments, std::vector<range_view>& ranges) {
  if (header.count > at.left() / sizeof(changed_page)) at.fail("a transaction has more changed pages than fit");
  ranges.reserve(header.count);
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const auto changed = at.take<changed_page>();
    if (changed.segment >= segments) at.fail("a page belongs to a segment that the group does not name");
    if (changed.page >= ~std::uint64_t{0} / redo_page) at.fail("a page lies beyond the largest offset");
    cursor each(at.take_padded(changed.bytes), at.place());
    std::uint32_t end = 0;  // of the range before
    for (std::uint32_t r = 0; r < changed.ranges; ++r) {
      const auto range = each.take<changed_range>();
      if (range.offset < end) each.fail("a range begins before the end of the one before it");
      end = std::uint32_t{range.offset} + range.length;
      if (end > redo_page) each.fail("a range ends beyond its page");
      ranges.push_back({changed.segment, changed.page * redo_page + range.offset, each.take(range.length)});
    }
    if (each.left() != 0) each.fail("a page has more bytes than its ranges");
  }
}

transaction_view parse_transaction(cursor& at, const record_header& header, std::size_t segments) {
  const auto body = at.take<transaction_body>();
  const auto label = at.take_padded(body.label);
  transaction_view view{body.id, body.time, header.flags, {reinterpret_cast<const char*>(label.data()), label.size()},
                        {},      {}};
  if (header.type == record_type::runs) {
    parse_bulk_runs(at, header, segments, view.runs);
    return view;
  }
  if (header.type == record_type::changes) {
    parse_changes(at, header, segments, view.ranges);
    return view;
  }
  if (header.count > at.left() / sizeof(range_header)) at.fail("a transaction has more ranges than fit");
  view.ranges.reserve(header.count);
  for (std::uint32_t i = 0; i < header.count; ++i) {
    const auto range = at.take<range_header>();
    if (range.segment >= segments) at.fail("a range belongs to a segment that the group does not name");
    if (range.offset + range.length < range.offset) at.fail("a range ends beyond the largest offset");
    view.ranges.push_back({range.segment, range.offset, at.take_padded(range.length)});
  }
  return view;
}

}  // namespace

std::uint64_t short_log_id(const identity& id) noexcept {
  std::uint64_t value;
  std::memcpy(&value, id.data(), sizeof value);
  return value;
}

bool read_group_header(os::const_bytes bytes, const group_expectation& expected, group_header& header) noexcept {
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.magic == group_magic && header.log_id == expected.log_id && header.lsn == expected.lsn &&
         header.length >= sizeof header && header.length <= max_group && header.batch <= header.lsn &&
         header.batch % expected.block == 0 && header.previous % expected.block == 0 && header.previous <= max_group;
}

bool group_intact(os::const_bytes bytes, const group_header& header) noexcept {
  constexpr auto covered_from = offsetof(group_header, log_id);
  return bytes.size() >= header.length &&
         crc32c(bytes.subspan(covered_from, header.length - covered_from)) == header.checksum;
}

group_view::group_view(os::const_bytes bytes, const group_header& header, const std::string& place) : header_(header) {
  cursor at(bytes.first(header.length).subspan(sizeof header), place);
  if ((header.flags & ~(group_last | group_of_all | group_prepared)) != 0 || header.reserved != 0)
    at.fail_unknown("a group has the flags " + std::to_string(header.flags) + " and " +
                    std::to_string(header.reserved));
  auto& into = is_prepared() ? prepared_ : transactions_;
  for (std::uint32_t i = 0; i < header.records; ++i) {
    const auto record = at.take<record_header>();
    if (record.length < sizeof record || record.length % 8 != 0) at.fail("a record's length is senseless");
    cursor body(at.take(record.length - sizeof record), place);
    if ((record.flags & ~(record_first | record_last | record_lazy)) != 0)
      at.fail_unknown("a record has the flags " + std::to_string(record.flags));
    switch (record.type) {
      case record_type::segment: segments_.push_back(parse_segment(body, record, lengths_.emplace_back())); break;
      case record_type::changes:
      case record_type::transaction:
      case record_type::runs:
        into.push_back(parse_transaction(body, record, segments_.size()));
        into.back().at = static_cast<std::uint32_t>(header.length - at.left() - record.length);
        break;
      case record_type::prepare: {
        if (!is_prepared() || !global_id_.empty() || record.count == 0) at.fail("a global id is where none should be");
        const auto id = body.take_padded(record.count);
        global_id_ = {reinterpret_cast<const char*>(id.data()), id.size()};
        break;
      }
      case record_type::outcome:
        if (record.count != 0) at.fail_unknown("an outcome is of kind " + std::to_string(record.count));
        break;
      default: at.fail_unknown("a record is of type " + std::to_string(static_cast<unsigned>(record.type)));
    }
    if (body.left() != 0) body.fail("a record is longer than what it holds");
  }
  if (at.left() != 0) at.fail("bytes follow the last record");
}

}  // namespace tenure::rvm
