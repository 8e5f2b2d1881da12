// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Members: the segments that belong to what the log belongs to, as the log's manifest lists them [rvm.members].
#include "log/unfinished.hpp"
#include "os/process.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

// The file is made first: then the manifest lists no file that was never there. A file that a crash leaves unlisted was
// never changed.
void memory_state::create_segment(const std::string& path, const segment_options& how) {
  opening_.require_writable();
  const std::string absolute = os::absolute_path(path), logged = segments_->name_of(path);
  if (how.member && !log_->status().has_room_for(logged))
    throw error(errc::too_big, opening_.path() + ": has " + std::to_string(members().size()) +
                                   " databases, and its manifest has no room for one more");
  segment::create(disk_, absolute, how);
  if (!how.member) return;
  const auto file = disk_.open(absolute, os::access::read_only);
  listed_segment entry{};
  entry.id = read_segment_header(disk_, absolute).segment_id;
  entry.inode = file->id().inode;
  entry.device = file->id().device;
  entry.membership = pending_member;
  entry.path_text = logged;
  change_list([&](manifest& m) { m.segments.push_back(entry); });
}

std::vector<segment_member> memory_state::members() const {
  opening_.require_usable();
  std::vector<segment_member> all;
  for (const listed_segment& s : log_->status().segments)
    if (s.membership != not_a_member)
      all.push_back({absolute_segment_path(opening_.path(), s.path_text), s.id, s.membership == pending_member});
  return all;
}

void memory_state::change_list(const std::function<void(manifest&)>& change) {
  try {
    log_->change_list(change);
  } catch (const error& e) {
    if (e.code() == errc::outcome_unknown) writing_->writer.fail(e);
    throw;
  }
}

void memory_state::confirm_member(const std::string& path, bool durably) {
  opening_.require_writable();
  const auto confirm = [&](manifest& m) {
    if (listed_segment* const s = m.find_member(segments_->name_of(path))) s->membership = full_member;
  };
  durably ? change_list(confirm) : log_->note_in_list(confirm);
}

// The first member is written before the log's manifest lists it, and both get their names together: the manifest may list
// a file that is not there yet.
std::unique_ptr<log_files> memory_state::create_log_with_member() {
  const new_segment& first = *how_.first_member;
  const std::string &path = opening_.path(), absolute = os::absolute_path(first.path);
  require_not_unfinished(disk_, path);
  return log_files::create(
      disk_, path, how_.log, how_.on_progress, [](manifest& m) { begin_first_generation(m); },
      [&](manifest& m) {
        return segment::write_new_member(disk_, absolute, logged_path(path, absolute), first.how, path, m);
      });
}

void memory_state::drop_member(const std::string& path) {
  opening_.require_writable();
  mapper_->unmap_left();
  change_list([&](manifest& m) {
    if (const listed_segment* const s = m.find_member(segments_->name_of(path)))
      m.segments.erase(m.segments.begin() + (s - m.segments.data()));
  });
}

}  // namespace tenure::rvm
