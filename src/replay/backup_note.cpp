// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/backup_note.hpp"

#include <optional>
#include <span>

#include <tenure/error.hpp>

#include "log/checksum.hpp"
#include "log/new_file.hpp"
#include "log/padded_parts.hpp"

namespace tenure::rvm {

namespace {

constexpr std::string_view suffix = ".backup";
constexpr std::uint64_t longest_note = std::uint64_t{1} << 30;

std::uint32_t checksum_of(backup_header header, os::const_bytes body) {
  header.checksum = 0;
  std::vector<std::byte> covered;
  put(covered, header);
  covered.insert(covered.end(), body.begin(), body.end());
  return crc32c(covered);
}

// The checksum holds. Nothing: it makes no sense all the same.
std::optional<backup_note> decode(const backup_header& h, os::const_bytes body) {
  backup_note note{h.log_id, h.own_id, h.from, h.to, h.transaction, h.time, h.made, {}, {}};
  part_taker from(body);
  if (h.from == 0 || h.from > h.to || !from.take_text(h.label, note.label)) return std::nullopt;
  for (std::uint32_t n = 0; n < h.segments; ++n) {
    backup_segment s;
    noted_segment& made = note.segments.emplace_back();
    if (!from.take(s) || s.membership > full_member || s.raw > 1 || !from.take_text(s.path, made.path) ||
        made.path.empty())
      return std::nullopt;
    made.raw = s.raw != 0;
    made.membership = s.membership;
    if (made.raw) continue;
    if (!from.take(made.header) || made.header.magic != segment_magic ||
        made.header.checksum != header_checksum(made.header, offsetof(segment_header, checksum)))
      return std::nullopt;
  }
  if (!from.is_at_end()) return std::nullopt;
  return note;
}

}  // namespace

bool leads_on(const segment_header* earlier, const segment_header& now, const identity& log, lsn to) {
  if (now.log_id != log) return false;
  if (earlier == nullptr) return now.was_blank == 1 && now.since >= to;
  return (earlier->since == now.since && earlier->was_blank == now.was_blank) ||
         (earlier->since == 0 && now.was_blank == 1);  // it was copied before its first change
}

std::string note_path(const std::string& log_path) { return log_path + std::string(suffix); }

std::string find_backup(os::disk& disk, const std::string& where) {
  if (disk.exists(note_path(where))) return where;
  std::string found;
  for (const std::string& name : disk.names_in(where)) {
    if (!name.ends_with(suffix) || name.size() == suffix.size()) continue;
    if (!found.empty())
      throw error(
          errc::bad_option,
          where + ": has more than one backup; give the path of the one that is meant, without " + std::string(suffix));
    found = name;
  }
  if (found.empty())
    throw error(errc::not_a_log, where +
                                     ": no backup is there: it has no file with a name that ends in .backup; if a "
                                     "backup was begun there, it was not completed");
  return where + "/" + found.substr(0, found.size() - suffix.size());
}

backup_note read_backup_note(os::disk& disk, const std::string& log_path) {
  const std::string path = note_path(log_path);
  const auto file = disk.open(path, os::access::read_only);
  const auto damaged = [&](const char* why) -> error {
    return {errc::damaged, path + ": what the backup says of itself is damaged: " + why + "; use another backup"};
  };
  backup_header h{};
  if (file->read_at(0, std::as_writable_bytes(std::span{&h, 1})) != sizeof h) throw damaged("it is cut off");
  if (h.magic != backup_magic) throw error(errc::not_a_log, path + ": is not of a backup of this library");
  if (h.endian != endian_mark || h.version != backup_version || h.incompatible != 0)
    throw error(errc::wrong_version, path + ": is of a backup in version " + std::to_string(h.version) +
                                         ", or of a machine of another kind; this library has version " +
                                         std::to_string(backup_version));
  if (h.length < sizeof h || h.length > longest_note || h.length != file->size()) throw damaged("its length is wrong");
  std::vector<std::byte> body(static_cast<std::size_t>(h.length - sizeof h));
  if (file->read_at(sizeof h, body) != body.size()) throw damaged("it is cut off");
  if (checksum_of(h, body) != h.checksum) throw damaged("its checksum does not match");
  auto note = decode(h, body);
  if (!note) throw damaged("its contents make no sense");
  return *std::move(note);
}

void require_untouched(const manifest& found, const std::string& backup, const backup_note& note) {
  if (found.log_id == note.own_id && found.clean != 0 && found.tail == note.to) return;
  throw error(errc::wrong_log, backup + ": is a backup that was opened and changed since it was made, as of LSN " +
                                   std::to_string(note.to) + "; use one that was not, or make a backup of this one");
}

void write_backup_note(os::disk& disk, const std::string& log_path, const backup_note& note) {
  backup_header h{};
  h.magic = backup_magic;
  h.version = backup_version;
  h.endian = endian_mark;
  h.log_id = note.log_id;
  h.own_id = note.own_id;
  h.from = note.from;
  h.to = note.to;
  h.transaction = note.transaction;
  h.time = note.time;
  h.made = note.made;
  h.label = static_cast<std::uint32_t>(note.label.size());
  h.segments = static_cast<std::uint32_t>(note.segments.size());
  std::vector<std::byte> body;
  put_text(body, note.label);
  for (const noted_segment& s : note.segments) {
    put(body, backup_segment{static_cast<std::uint32_t>(s.path.size()), s.membership, s.raw ? 1U : 0U, 0});
    put_text(body, s.path);
    if (s.raw) continue;
    segment_header header = s.header;
    header.checksum = header_checksum(header, offsetof(segment_header, checksum));
    put(body, header);
  }
  h.length = sizeof h + body.size();
  h.checksum = checksum_of(h, body);
  new_file making(disk, note_path(log_path), 0600);
  const os::const_bytes parts[] = {std::as_bytes(std::span{&h, 1}), body};
  making.file().write_all_at(0, parts);
  making.file().sync();
  making.publish();
}

void require_empty_directory(os::disk& disk, const std::string& directory, const std::string& what) {
  if (!disk.names_in(directory).empty())
    throw error(std::make_error_code(std::errc::file_exists),
                directory + ": is not empty; " + what +
                    " needs a new directory: give another one, or remove this one if it was left by " + what +
                    " that was not completed");
}

void make_empty_directory(os::disk& disk, const std::string& directory, const std::string& what) {
  require_empty_directory(disk, directory, what);
  disk.make_directory(directory);
}

}  // namespace tenure::rvm
