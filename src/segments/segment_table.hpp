// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The open segments of a memory, and the names that its log has for segments.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "log/durable_log.hpp"
#include "log/manifest.hpp"
#include "segments/segment.hpp"
#include "segments/segment_name.hpp"

namespace tenure::rvm {

// Log records name a segment in or below the log's directory by its path relative to that directory, so that the
// directory can be moved.
[[nodiscard]] std::string logged_path(const std::string& log_path, const std::string& segment_path);
[[nodiscard]] std::string absolute_segment_path(const std::string& log_path, const std::string& logged);

// Opening and closing segments has one user at a time (map_mutex). The rest is thread-safe.
class segment_table {
 public:
  // `at_open`: the log's manifest when the log was opened.
  segment_table(os::disk& disk, const durable_log& log, const manifest& at_open, os::access access)
      : disk_(disk), log_(log), at_open_(at_open), access_(access) {}

  struct use {
    bool raw = false;
    bool take_over = false;  // the segment belongs to another log, or to another moment of this one: this log takes it
  };
  // Opens the segment unless it is open already. It must belong to this log, and to the same moment.
  [[nodiscard]] segment& open(const std::string& path, use how);
  void close(segment& which);
  // The segment that a record names. It must be open.
  [[nodiscard]] segment& find(const segment_name& name) const;
  // Whether the segment's last changes, if there were any, were made under this log.
  // The path that the log has for the segment.
  [[nodiscard]] std::string name_of(const std::string& path) const { return logged_path(log_.path(), path); }
  [[nodiscard]] bool is_of_this_log(const segment& in) const { return !in.was_changed_elsewhere(log_.id()); }

  // Adds to the log's manifest how far each segment has the log's changes.
  void add_to(manifest& of) const;
  // Makes the log's manifest say what they are called now. Returns whether it has changed.
  [[nodiscard]] bool note_names(manifest& in) const;
  // The log has no changes for the segments any more.
  void note_not_in_log();
  // Throws if an invariant does not hold.
  void check() const;
  void clear();

 private:
  os::disk& disk_;
  const durable_log& log_;
  const manifest at_open_;
  const os::access access_;
  mutable std::mutex mutex_;                                  // innermost; the map itself
  std::map<std::string, std::unique_ptr<segment>> segments_;  // by logged path
};

}  // namespace tenure::rvm
