// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The changes that a log and its archive know of, oldest first: the tool that RVM's authors made for post-mortem debugging
// [RVM §6]. Takes no lock and changes nothing; the log may be in use.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "log_survey.hpp"
#include "progress_line.hpp"
#include "records/archive_reader.hpp"
#include "segments/page_bytes.hpp"
#include "segments/segment_layout.hpp"

namespace tenure::tools {

// A segment as records name it, and how to read it now.
struct named_segment {
  std::string path;  // absolute
  bool raw = false;
  rvm::identity id{};
  rvm::segment_layout layout{};
  std::uint64_t length = 0;  // of data
  std::string log_path;      // from its header; empty if raw, or never used
  rvm::identity log_id{};    // of that log
  rvm::lsn applied = 0;      // the file may have what was logged before; 0: not known

  // Looks at the file. Raw if it has no header and `may_be_raw`.
  static named_segment look_at(os::disk& disk, const std::string& path, bool may_be_raw);
  // Whether records of the log at `log` mean it by this name.
  [[nodiscard]] bool is(const rvm::segment_name& name, const std::string& log) const;
  // Whether this is another segment of the same name.
  [[nodiscard]] bool is_namesake_of(const rvm::segment_name& name, const std::string& log) const;
  // What the file surely has was logged before, in this log; 0: nothing. {}: it is the file of another log, and no backup that
  // nobody has changed.
  [[nodiscard]] std::optional<rvm::lsn> is_copied_through(os::disk& disk, const rvm::identity& log) const;
};

// What is wanted of a history; the default is all of it.
struct wanted_changes {
  const named_segment* segment = nullptr;
  std::uint64_t from = 0, to = ~std::uint64_t{0};  // bytes of the segment's data
  [[nodiscard]] bool in_pages(const std::vector<std::uint64_t>& pages) const;
};

class history {
 public:
  // `progress`: says how much has been read; nullptr: nobody wants to know.
  history(os::disk& disk, const std::string& log_path, const std::string& archive_path,
          progress_line* progress = nullptr);

  // Calls visit(group, its bytes) for each group that has wanted changes, and perhaps others, oldest first, until it returns
  // false.
  void walk(const wanted_changes& which, const group_visitor& visit);

  // Of the last walk. Where the history begins, and what it lacks.
  [[nodiscard]] bool is_complete() const { return complete_ && gaps_.empty(); }  // from the log's first record on
  [[nodiscard]] rvm::lsn begin() const { return begin_; }
  [[nodiscard]] const std::vector<rvm::archive_gap>& gaps() const { return gaps_; }
  // Whether another segment had the wanted one's name.
  [[nodiscard]] bool has_namesake() const { return has_namesake_; }
  [[nodiscard]] const std::string& log_path() const { return log_path_; }

 private:
  // Both move at_ on, and return false when the visitor has had enough.
  bool walk_archive(const wanted_changes& which, const group_visitor& visit);
  // Sets `behind` if the log has been truncated beyond at_.
  bool walk_log(const group_visitor& visit, bool& behind);
  void show_progress(rvm::lsn end);
  void note_gap(rvm::lsn from, rvm::lsn to, const std::string& reason);

  os::disk& disk_;
  progress_line* progress_;
  std::string log_path_, archive_path_, damage_at_end_, unknown_file_;
  rvm::lsn begin_ = 0, at_ = 0;
  bool started_ = false, complete_ = false, has_namesake_ = false;
  std::vector<rvm::archive_gap> gaps_;
};

// A moment: behind the transaction whose record is at an LSN, or behind the last one that was not later than a time.
struct moment {
  std::optional<rvm::lsn> at = {};
  std::optional<std::int64_t> time = {};  // ns since 1970
  std::string text;

  // "4096", or "2026-11-21 08:50:04.5" (UTC; a T in the middle, a Z or UTC at the end, and parts of seconds may be there).
  // Throws errc::bad_option.
  static moment parse(const std::string& text);
  [[nodiscard]] bool includes(rvm::lsn record, std::int64_t committed) const {
    return at ? record <= *at : !time || committed <= *time;
  }
};

// Calls f(transaction, record's LSN) for each record of a group. A transaction's records follow each other.
template <class F>
void for_each_record(const rvm::group_view& group, os::const_bytes bytes, F&& f) {
  if (group.is_prepared()) return;
  std::size_t at = sizeof(rvm::group_header), n = 0;
  for (std::uint32_t i = 0; i < group.header().records; ++i) {
    rvm::record_header record;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    if (record.type != rvm::record_type::segment && record.type != rvm::record_type::outcome)
      f(group.transactions()[n++], group.header().lsn + at);
    at += record.length;
  }
}

// Which bytes of a segment are known, and what they are.
class known_bytes {
 public:
  void set(std::uint64_t offset, os::const_bytes value);
  // Of whole pages.
  void forget(std::uint64_t offset, std::uint64_t length);
  // Calls f(i, byte) for each known one of [offset, offset+length), i counted from `offset`.
  template <class F>
  void for_each(std::uint64_t offset, std::uint64_t length, F&& f) const {
    for (std::uint64_t at = offset; at < offset + length;) {
      const std::uint64_t in_page = at / rvm::redo_page,
                          end = std::min(offset + length, (in_page + 1) * rvm::redo_page);
      if (const auto found = pages_.find(in_page); found != pages_.end())
        for (std::uint64_t i = at; i < end; ++i)
          if (const auto in = static_cast<std::uint32_t>(i % rvm::redo_page); found->second->known.contains(in, in + 1))
            f(i - offset, found->second->value[in]);
      at = end;
    }
  }
  [[nodiscard]] std::vector<std::uint64_t> pages() const;  // ascending
  [[nodiscard]] bool has(std::uint64_t number) const { return pages_.contains(number); }

 private:
  struct page {
    rvm::page_bytes known;
    std::byte value[rvm::redo_page];
  };
  std::unordered_map<std::uint64_t, std::unique_ptr<page>> pages_;
};

}  // namespace tenure::tools
