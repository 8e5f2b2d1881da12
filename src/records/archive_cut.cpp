// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/archive_cut.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "log/checksum.hpp"
#include "log/new_file.hpp"

namespace tenure::rvm {

namespace {

// Writes the part again with these of its frames only.
void rewrite(os::disk& disk, const std::string& path, const std::vector<frame_header>& kept) {
  const auto old = disk.open(path, os::access::read_only);
  std::vector<std::byte> bytes(sizeof(part_header));
  if (old->read_at(0, bytes) != bytes.size()) throw error(errc::damaged, path + " has no header any more");
  new_file making(disk, path, 0600);
  making.file().write_at(0, bytes);
  std::uint64_t at = bytes.size();
  for (frame_header frame : kept) {
    bytes.resize(round_up(sizeof frame + frame.index_length + frame.stretch_length, 8));
    if (old->read_at(frame.offset, bytes) != bytes.size())
      throw error(errc::damaged, path + " ends in the middle of a frame");
    frame.offset = at;
    const auto header = std::as_writable_bytes(std::span{&frame, 1});
    frame.checksum = crc32c(header.subspan(8));
    std::ranges::copy(header, bytes.begin());
    making.file().write_at(at, bytes);
    at += bytes.size();
  }
  making.file().sync();
  disk.take_owner_of(making.file().path(), path);  // who could read it can still
  making.replace();
}

}  // namespace

cut_report cut_archive(os::disk& disk, const std::string& path, const identity& log_id, lsn begin) {
  struct part {
    std::vector<frame_header> kept;
    cut_report removed;
  };
  std::map<std::uint64_t, part> parts;
  const archive_reader archive(disk, path, log_id);
  for (const auto& frame : archive.frames()) {
    part& in = parts[frame.header.part];
    if (frame.header.to <= begin) {
      ++in.removed.frames;
      in.removed.bytes += sizeof(frame_header) + frame.header.index_length + frame.header.stretch_length;
    } else {
      in.kept.push_back(frame.header);
    }
  }
  cut_report all;
  // Removes the oldest first, so that the remaining frames have no hole.
  for (const auto& [number, in] : parts) {
    if (in.removed.frames == 0) continue;
    // Keeps the newest part, empty: it says which number the next part gets.
    if (in.kept.empty() && number != parts.rbegin()->first)
      disk.remove(part_path(path, number));
    else
      rewrite(disk, part_path(path, number), in.kept);
    all.frames += in.removed.frames;
    all.bytes += in.removed.bytes;
  }
  if (all.frames != 0) disk.sync_directory_of(part_path(path, 0));
  return all;
}

}  // namespace tenure::rvm
