// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "segments/segment_table.hpp"

#include <string_view>

#include <tenure/error.hpp>

#include "log/invariant.hpp"
#include "os/process.hpp"

namespace tenure::rvm {

namespace {

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// Any file can be a raw segment, but not those of the log that would write to it.
void require_no_file_of(const std::string& log_path, const std::string& path, const std::string& logged) {
  const std::string name = log_path.substr(log_path.rfind('/') + 1);
  if (!logged.starts_with(name)) return;
  const std::string_view rest = std::string_view(logged).substr(name.size());
  const bool is_numbered =
      rest.size() > 1 && rest[0] == '.' && rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (rest.empty() || is_numbered)
    throw error(errc::bad_option, path + ": is a file of the log " + log_path + ", and no segment");
}

}  // namespace

std::string logged_path(const std::string& log_path, const std::string& segment_path) {
  const std::string absolute = os::absolute_path(segment_path), directory = directory_of(log_path);
  return absolute.starts_with(directory) ? absolute.substr(directory.size()) : absolute;
}

std::string absolute_segment_path(const std::string& log_path, const std::string& logged) {
  return logged.starts_with('/') ? logged : directory_of(log_path) + logged;
}

segment& segment_table::find(const segment_name& name) const {
  const std::scoped_lock lock(mutex_);
  if (const auto at = segments_.find(name.path); at != segments_.end() && at->second->id() == name.id)
    return *at->second;
  for (const auto& [logged, s] : segments_)  // renamed while it was closed
    if (!name.raw && !s->is_raw() && s->id() == name.id) return *s;
  throw error(errc::segment_missing,
              log_.path() + ": the log has changes for the segment " + name.path + ", which is not open");
}

segment& segment_table::open(const std::string& path, use how) {
  const std::string logged = logged_path(log_.path(), path);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto at = segments_.find(logged); at != segments_.end()) {
      if (at->second->is_raw() != how.raw)
        throw error(errc::bad_option,
                    path + ": is open already " + (how.raw ? "as a segment with a header" : "as a raw segment"));
      return *at->second;
    }
  }
  if (how.raw) require_no_file_of(log_.path(), path, logged);
  auto opened = std::make_unique<segment>(disk_, absolute_segment_path(log_.path(), logged), logged, access_, how.raw);
  const lsn tail = log_.window().tail;
  if (!how.take_over) {
    opened->require_log(log_.id());
    if (const auto why = opened->find_mismatch(at_open_, log_.path(), tail); !why.empty())
      throw error(errc::wrong_log, opened->path() + ": this segment " + why +
                                       "; map_options::take_over maps it as it is, of whatever moment");
  }
  if (access_ == os::access::read_write) {
    if (how.take_over) {
      opened->detach_from_log();
      opened->note_in_log(log_.id(), log_.path(), tail);
    }
    opened->repair_checksums();
  }
  const std::scoped_lock lock(mutex_);
  return *segments_.emplace(logged, std::move(opened)).first->second;
}

void segment_table::close(segment& which) {
  if (access_ == os::access::read_write) which.note_not_in_log();
  const std::scoped_lock lock(mutex_);
  segments_.erase(which.logged_path());
}

void segment_table::add_to(manifest& of) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [logged, s] : segments_) s->add_to(of);
}

bool segment_table::note_names(manifest& in) const {
  const std::scoped_lock lock(mutex_);
  bool has_changed = false;
  for (const auto& [logged, s] : segments_) {
    if (!s->is_raw() && in.rename(s->id(), logged)) has_changed = true;
  }
  return has_changed;
}

void segment_table::note_not_in_log() {
  for (const auto& [logged, s] : segments_) s->note_not_in_log();
}

void segment_table::check() const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [logged, s] : segments_) {
    require_invariant(s->logged_path() == logged, "segments are found by the paths that records have");
    require_invariant(s->length() <= s->max_length() || s->is_raw(), "a segment is no longer than it may become");
    require_invariant(s->applied() <= log_.window().tail || !s->was_changed_under(log_.id()),
                      "a segment has no changes that are not in the log");  // [rvm.segment.applied]
  }
}

void segment_table::clear() {
  const std::scoped_lock lock(mutex_);
  segments_.clear();
}

}  // namespace tenure::rvm
