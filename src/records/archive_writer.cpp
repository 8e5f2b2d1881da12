// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/archive_writer.hpp"

#include <zstd.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <map>
#include <tuple>

#include "log/checksum.hpp"
#include "log/invariant.hpp"
#include "log/new_file.hpp"
#include "os/process.hpp"
#include "records/archive_part.hpp"
#include "records/archive_reader.hpp"
#include "records/group.hpp"
#include "records/log_reader.hpp"

namespace tenure::rvm {

namespace {

// Level 1 compresses 1 GB/s and makes a bank's log 17 times smaller. Higher levels take several times longer and gain
// little.
constexpr int level = 1;

// The pages of each segment that a stretch changes.
class index_maker {
 public:
  void add(const group_view& group) {
    std::vector<std::vector<std::uint64_t>*> pages_of;
    for (const segment_name& name : group.segments()) pages_of.push_back(&pages_[name]);
    for (const transaction_view& tx : group.transactions()) {
      for (const bulk_run_view& run : tx.runs)
        for (std::uint64_t page = 0; page < run.pages && !run.is_cleared(); ++page)
          pages_of[run.segment]->push_back(run.offset / redo_page + page);
      for (const range_view& range : tx.ranges) {
        auto& pages = *pages_of[range.segment];
        if (range.value.empty()) continue;
        for (std::uint64_t page = range.offset / redo_page; page <= (range.offset + range.value.size() - 1) / redo_page;
             ++page)
          if (pages.empty() || pages.back() != page) pages.push_back(page);
      }
    }
  }
  std::vector<std::byte> take() {
    std::vector<std::byte> all;
    const auto put = [&](const void* from, std::size_t length) {
      const auto* bytes = static_cast<const std::byte*>(from);
      all.insert(all.end(), bytes, bytes + length);
    };
    for (auto& [name, pages] : pages_) {
      std::ranges::sort(pages);
      pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
      const index_entry entry{name.id, name.raw ? 1u : 0u, static_cast<std::uint32_t>(name.path.size()), pages.size()};
      put(&entry, sizeof entry);
      put(name.path.data(), name.path.size());
      all.resize(round_up(all.size(), 8));
      std::uint64_t last = 0;
      for (const std::uint64_t page : pages) {
        const std::uint64_t delta = page - last;
        put(&delta, sizeof delta);
        last = page;
      }
    }
    return all;
  }

 private:
  struct by_path {
    bool operator()(const segment_name& a, const segment_name& b) const {
      return std::tie(a.path, a.raw, a.id) < std::tie(b.path, b.raw, b.id);
    }
  };
  std::map<segment_name, std::vector<std::uint64_t>, by_path> pages_;
};

error written_elsewhere(const os::file& part) {
  return {errc::in_use, part.path() + ": " + part.lock_holders("memory") +
                            " writes to this archive; give each log a path of its own for its archive"};
}

}  // namespace

archive_writer::archive_writer(os::disk& disk, const archive_options& how, const readable_log& log, counters& count,
                               std::size_t frame)
    : disk_(disk),
      frame_(frame),
      path_(archive_path(log.path(), how.path)),
      log_path_(log.path()),
      log_id_(log.id()),
      part_size_(how.max_size / archive_parts),
      count_(count),
      compressor_(ZSTD_createCCtx(), ZSTD_freeCCtx) {
  if (compressor_ == nullptr) throw std::bad_alloc();
  if (how.max_size < std::uint64_t{1} << 20)
    throw error(errc::bad_option, path_ + ": the archive's max_size is " + std::to_string(how.max_size) +
                                      " bytes: at least 1 MiB is needed");
  find_end();
}

archive_writer::~archive_writer() = default;

void archive_writer::find_end() {
  std::uint64_t newest = 0;       // of this log
  bool may_have_changes = false;  // as the header of that part says
  for (std::uint64_t slot = 0; slot < archive_parts; ++slot) {
    const std::optional<archive_part> part = archive_part::find(disk_, path_, slot, os::access::read_only);
    if (!part) continue;
    // Nothing is known of it, and a new part would take its place [rvm.archive.append-only].
    if (!part->damage().empty())
      throw error(errc::damaged,
                  part->damage() +
                      "; it is not written over: move it away, or give another path for the archive, and open again");
    // Whoever writes a part has it locked [rvm.archive.one-log].
    if (!part->file().try_lock(os::lock_kind::shared)) throw written_elsewhere(part->file());
    if (part->header() && part->header()->read_only_compatible != 0)
      throw error(errc::wrong_version, part->path() +
                                           ": the archive was continued by a later version of this library, and this "
                                           "one must not write to it; give another path for the archive");
    part_ = std::max(part_, part->number());
    if (part->number() <= newest || !part->is_of(log_id_)) continue;
    newest = part->number();
    may_have_changes = part->header() && (part->header()->incompatible & feature_changes) != 0;
  }
  if (newest == 0) return;
  auto file = disk_.open(part_path(path_, newest), os::access::read_write);
  if (!file->try_lock(os::lock_kind::exclusive)) throw written_elsewhere(*file);
  const std::uint64_t size = file->size();
  frame_header frame, last{};
  for (at_ = sizeof(part_header); at_ < size;
       at_ = round_up(at_ + sizeof frame + last.index_length + last.stretch_length, 8)) {
    if (file->read_at(at_, bytes_of(frame)) != sizeof frame || !is_valid(frame, newest, at_)) break;
    last = frame;
    end_ = std::max(end_, frame.to);
  }
  if (last.to == 0) return;
  // The last frame may be torn, so it counts only if its content is whole. The frames before it were synced.
  std::vector<std::byte> content(last.index_length + last.stretch_length);
  if (file->read_at(last.offset + sizeof last, content) != content.size() ||
      crc32c(std::span(content).first(last.index_length)) != last.index_checksum ||
      crc32c(std::span(content).subspan(last.index_length)) != last.stretch_checksum)
    end_ = last.from;
  else if (at_ == size && newest == part_ && may_have_changes)
    file_ = std::move(file);
  // Otherwise something torn or damaged is behind the last frame, which is not overwritten, the header is damaged, or an earlier
  // version wrote the part: a new one begins.
}

void archive_writer::append(const readable_log& log, lsn from, lsn to) {
  from = std::max(from, std::min(end_, to));
  while (from < to) {
    stretch next = take(log, from, to);
    assert(next.header.from == from && next.header.to > from && next.header.to <= to);
    from = next.header.to;
    write(next);
    end_ = from;
    count_.archived_log_bytes += next.header.stretch_plain;
    count_.archive_bytes_written += sizeof next.header + next.content.size();
  }
#ifndef NDEBUG
  check();
#endif
}

void archive_writer::require_same_past(const readable_log& log, lsn from, lsn to) const {
  if (end_ > from) archive_reader(disk_, path_, log_id_).require_same_past(log, from, to);
}

void archive_writer::check() const {
  require_invariant(file_ == nullptr || part_ != 0, "a frame is appended to a part that was begun");
  require_invariant(file_ == nullptr || (at_ > sizeof(part_header) && at_ % 8 == 0), "a frame begins behind another");
  // What is behind the last frame would be read as a frame.
  require_invariant(file_ == nullptr || file_->size() == at_, "nothing is behind the last frame of the archive");
}

std::size_t archive_writer::compress(os::const_bytes from, std::size_t to) {
  const std::size_t room = ZSTD_compressBound(from.size());
  content_.resize(to + room);
  const std::size_t length =
      ZSTD_compressCCtx(compressor_.get(), content_.data() + to, room, from.data(), from.size(), level);
  if (ZSTD_isError(length) != 0)
    throw error(std::make_error_code(std::errc::not_enough_memory),
                path_ + ": cannot compress: " + ZSTD_getErrorName(length));
  content_.resize(to + length);
  return length;
}

archive_writer::stretch archive_writer::take(const readable_log& log, lsn from, lsn to) {
  buffer_.resize(std::min<std::uint64_t>(to - from, frame_));
  log.read(from, buffer_);
  stretch made{};
  frame_header& header = made.header;
  header.magic = frame_magic;
  header.from = from;
  header.block_size = log.block();
  index_maker index;
  lsn at = from;
  while (at < from + buffer_.size()) {
    const auto rest = os::const_bytes(buffer_).subspan(at - from);
    group_header group;
    const bool known = read_group_header(rest, {short_log_id(log_id_), at, log.block()}, group);
    if (known && padded_length(group, log.block()) > rest.size() && at != from) break;  // it begins the next frame
    if (!known || padded_length(group, log.block()) > rest.size() || !group_intact(rest, group))
      throw error(errc::damaged, place_of(log, at) + " is damaged: it cannot be archived");
    const group_view view(rest.first(group.length), group, place_of(log, at));
    for (const transaction_view& tx : view.transactions()) {
      if (header.first_time == 0) header.first_time = tx.time;
      header.last_time = tx.time;
      header.transactions += tx.flags & record_last ? 1 : 0;
    }
    index.add(view);
    at += padded_length(group, log.block());
  }
  header.to = at;
  const std::vector<std::byte> pages = index.take();
  header.index_plain = static_cast<std::uint32_t>(pages.size());
  header.index_length = static_cast<std::uint32_t>(compress(pages, 0));
  header.stretch_plain = static_cast<std::uint32_t>(at - from);
  header.stretch_length =
      static_cast<std::uint32_t>(compress(os::const_bytes(buffer_).first(at - from), header.index_length));
  os::clear_all_of(buffer_);
  header.index_checksum = crc32c(std::span(content_).first(header.index_length));
  header.stretch_checksum = crc32c(std::span(content_).subspan(header.index_length));
  content_.resize(round_up(content_.size(), 8));
  made.content = std::move(content_);
  content_.clear();
  return made;
}

void archive_writer::write(stretch& what) {
  const std::uint64_t length = sizeof what.header + what.content.size();
  if (file_ == nullptr || at_ + length > std::max<std::uint64_t>(part_size_, sizeof(part_header) + length))
    return write_to_new_part(what);
  assert(at_ % 8 == 0 && what.content.size() % 8 == 0);
  what.header.part = part_;
  what.header.offset = at_;
  what.header.checksum = crc32c(const_bytes_of(what.header).subspan(8));
  const os::const_bytes parts[] = {const_bytes_of(what.header), what.content};
  // If this fails, something may be behind the last frame. Then a new part begins.
  auto file = std::move(file_);
  file->write_all_at(at_, parts);
  file->sync();
  file_ = std::move(file);
  at_ += length;
}

// Whether it is a part of which the name could not be made durable. What it has is in no other part yet, and comes again.
bool archive_writer::is_left_over(const archive_part& part) const {
  return part.damage().empty() && part.number() == begun_ && part.is_of(log_id_) &&
         part.file().try_lock(os::lock_kind::shared);
}

void archive_writer::write_to_new_part(stretch& what) {
  part_header header{};
  header.magic = archive_magic;
  header.version = archive_version;
  header.endian = endian_mark;
  header.log_id = log_id_;
  header.part = part_ + 1;
  header.created = os::wall_clock_ns();
  header.incompatible = feature_changes;
  header.log_path_length = static_cast<std::uint32_t>(std::min(log_path_.size(), header.log_path.size()));
  std::copy_n(log_path_.data(), header.log_path_length, header.log_path.data());
  header.checksum = header_checksum(header, offsetof(part_header, checksum));
  what.header.part = header.part;
  what.header.offset = sizeof header;
  what.header.checksum = crc32c(const_bytes_of(what.header).subspan(8));
  const os::const_bytes parts[] = {const_bytes_of(header), const_bytes_of(what.header), what.content};
  // Another log may have begun this part since the archive was opened [rvm.archive.one-log].
  if (const auto there = archive_part::find(disk_, path_, header.part % archive_parts, os::access::read_only);
      there && (!there->damage().empty() || there->number() >= header.part) && !is_left_over(*there))
    throw there->damage().empty() ? written_elsewhere(there->file())
                                  : error(errc::damaged, there->damage() + "; it is not written over: move it away");
  // The part gets its name when it is whole. In that moment the oldest part is gone.
  new_file making(disk_, part_path(path_, header.part), 0600);
  making.file().write_all_at(0, parts);
  making.file().sync();
  // Whatever happens now, nothing more is written to the part before. The number is used when the name is durable: otherwise the
  // next part has the same one, and no slot is left out, whose old part would be in the middle of the history.
  at_ = part_size_ + sizeof header;
  begun_ = header.part;
  disk_.take_owner_of(making.file().path(), log_path_);
  making.replace();
  part_ = header.part;
  file_ = making.take();
  at_ = sizeof header + sizeof what.header + what.content.size();
}

}  // namespace tenure::rvm
