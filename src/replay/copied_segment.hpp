// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A segment, and its copy: what backups are made of, and what is restored from them. The segment may be in use meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tenure/error.hpp>

#include "segments/segment.hpp"

namespace tenure::rvm {

// Repeats f while it finds damage: somebody may have been writing what it reads.
template <class F>
auto repeated(F&& f) {
  constexpr int most = 20;
  for (int tries = 1;; ++tries) try {
      return f();
    } catch (const error& e) {
      if (e.code() != errc::damaged || tries == most) throw;
    }
}

class copied_segment {
 public:
  // Makes the copy's file. `logged`: the path that records have for it.
  copied_segment(os::disk& disk, const std::string& from, const std::string& to, std::string logged, bool raw,
                 unsigned permissions);

  [[nodiscard]] const std::string& path() const { return to_; }
  [[nodiscard]] std::uint64_t length() const { return length_; }
  [[nodiscard]] const segment_header& header() const { return header_; }
  [[nodiscard]] bool is_raw() const { return raw_; }
  // Whether its path still leads to the file that is copied: it may have been removed, and another one made.
  [[nodiscard]] bool is_current() const { return source_->is_current(); }
  // Whether it may have bytes that no transaction has committed: of a bulk write that was under way then.
  [[nodiscard]] bool was_bulk_under_way(std::uint64_t page) const;
  [[nodiscard]] std::uint64_t inode() const { return source_->id().inode; }
  [[nodiscard]] segment& opened() { return *opened_; }
  [[nodiscard]] std::unique_ptr<segment> take() { return std::move(opened_); }

  void copy(const std::function<void(std::uint64_t)>& on_copied) { copy(0, length_, on_copied); }
  // Bulk writes that have begun and are in no record yet: their pages are free, and may be half-written. To be called
  // after the segment was copied and before the tail is looked for: whoever ends one makes the record first.
  void note_bulk_under_way();
  // Pages that were written in bulk, which may have been after they were copied.
  void copy_again(std::uint64_t offset, std::uint64_t length);
  // Makes the copy a segment with changes of this log up to `tail`, and opens it.
  void open(const identity& log, const std::string& log_path, lsn tail);

 private:
  segment_header read_header();
  void copy(std::uint64_t at, std::uint64_t length, const std::function<void(std::uint64_t)>& on_copied);

  os::disk& disk_;
  const std::string from_, to_, logged_;
  const bool raw_;
  std::unique_ptr<os::file> source_, target_;
  segment_header header_{};
  segment_layout layout_;
  std::uint64_t length_ = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> again_;
  std::vector<bulk_note> under_way_;
  std::unique_ptr<segment> opened_;
};

// Makes the directories between `directory` and the file at this path below it.
void make_directories(os::disk& disk, const std::string& directory, const std::string& path);

}  // namespace tenure::rvm
