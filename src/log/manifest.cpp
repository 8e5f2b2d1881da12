// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "log/manifest.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <new>
#include <set>
#include <span>

#include "log/checksum.hpp"
#include "log/new_file.hpp"
#include "log/unfinished.hpp"
#include "os/process.hpp"

namespace tenure::rvm {

namespace {

constexpr std::uint64_t max_log_size = std::uint64_t{1} << 56;
constexpr std::size_t checksum_at = offsetof(manifest_header, checksum);

std::string copy_name(int copy) {
  return "manifest at offset " + std::to_string(static_cast<std::uint64_t>(copy) * manifest_copy_size);
}

// The checksum of a whole manifest, in which the checksum itself counts as zero.
std::uint32_t checksum_of(os::const_bytes whole) {
  std::vector<std::byte> covered(whole.begin(), whole.end());
  const std::uint32_t none = 0;
  std::memcpy(covered.data() + checksum_at, &none, sizeof none);
  return crc32c(covered);
}

// The reason why a manifest cannot be used; "" if it can.
std::string flaw_of(const manifest& m) {
  if (m.block_size < 512 || m.block_size > 4096 || !std::has_single_bit(m.block_size))
    return "its block size is senseless";
  if (m.size < m.block_size || m.size % m.block_size != 0) return "its size is senseless";
  if (m.head % m.block_size != 0 || m.tail % m.block_size != 0 || m.tail < m.head)
    return "its head and tail are senseless";
  // LSN 0 means "none"
  if (m.head == 0 || m.tail > max_lsn) return "its head and tail are impossible";
  if (m.clean != 0 && m.head != m.tail) return "it says that the log was closed cleanly, but also that it is not empty";
  if (m.max_size < m.size || m.max_size % m.block_size != 0 || m.max_size > max_log_size)
    return "its limit of growth is senseless";
  if (m.sequence > max_sequence || m.generation == ~std::uint32_t{0})
    return "it was written or opened impossibly often";
  if (m.files.empty()) return "it has no files";
  std::set<std::uint32_t> numbers;
  std::uint64_t sum = 0;
  for (const log_file_entry& f : m.files) {
    if (f.number == 0 || !numbers.insert(f.number).second) return "its list of files is senseless";
    if (f.length < m.block_size || f.length % m.block_size != 0 || f.length > max_log_size - sum)
      return "the length of one of its files is senseless";
    sum += f.length;
  }
  for (const listed_segment& s : m.segments)
    if (s.membership > full_member) return "its list of segments is senseless";
  if (m.tail - m.head > sum) return "its files are too short for its head and tail";
  return "";
}

template <class T>
void put(std::vector<std::byte>& to, const T& from) {
  const auto bytes = std::as_bytes(std::span{&from, 1});
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

const log_file_entry* manifest::find_file(std::uint32_t number) const {
  const auto at = std::ranges::find(files, number, &log_file_entry::number);
  return at != files.end() ? &*at : nullptr;
}

listed_segment* manifest::find_segment(const identity& id) {
  const auto at = std::ranges::find_if(segments, [&](const listed_segment& s) { return s.id == id; });
  return at != segments.end() ? &*at : nullptr;
}

bool manifest::rename(const identity& id, const std::string& path) {
  listed_segment* const listed = find_segment(id);
  if (listed == nullptr || listed->path_text == path) return false;
  listed->path_text = path;
  std::erase_if(segments, [&](const listed_segment& s) {
    return s.id != id && s.path_text == path && !s.is_raw() && s.membership == not_a_member;
  });
  return true;
}

listed_segment* manifest::find_raw(const std::string& path) {
  const auto at =
      std::ranges::find_if(segments, [&](const listed_segment& s) { return s.is_raw() && s.path_text == path; });
  return at != segments.end() ? &*at : nullptr;
}

listed_segment* manifest::find_member(const std::string& path) {
  const auto at = std::ranges::find_if(
      segments, [&](const listed_segment& s) { return s.membership != not_a_member && s.path_text == path; });
  return at != segments.end() ? &*at : nullptr;
}

bool manifest::has_room_for(const std::string& path) const {
  constexpr std::size_t for_files = most_log_files * sizeof(log_file_entry);
  const auto length_of = [](const std::string& text) { return sizeof(segment_entry) + round_up(text.size(), 8); };
  std::size_t needed = sizeof(manifest_header) + for_files + length_of(path);
  for (const listed_segment& s : segments) needed += length_of(s.path_text);
  return needed <= manifest_copy_size;
}

std::vector<std::byte> encode(manifest& of) {
  std::vector<std::byte> bytes(sizeof(manifest_header));
  for (const log_file_entry& f : of.files) put(bytes, f);
  for (listed_segment& s : of.segments) {
    s.path = static_cast<std::uint32_t>(s.path_text.size());
    put(bytes, static_cast<const segment_entry&>(s));
    const auto text = std::as_bytes(std::span(s.path_text));
    bytes.insert(bytes.end(), text.begin(), text.end());
    bytes.resize(round_up(bytes.size(), 8));
  }
  if (bytes.size() > manifest_copy_size)
    throw error(errc::too_big, "the log's manifest would have " + std::to_string(bytes.size()) + " bytes for " +
                                   std::to_string(of.files.size()) + " files and " +
                                   std::to_string(of.segments.size()) + " segments, and has room for " +
                                   std::to_string(manifest_copy_size));
  of.length = static_cast<std::uint32_t>(bytes.size());
  of.file_count = static_cast<std::uint32_t>(of.files.size());
  of.segment_count = static_cast<std::uint32_t>(of.segments.size());
  of.checksum = 0;
  std::memcpy(bytes.data(), static_cast<const manifest_header*>(&of), sizeof(manifest_header));
  of.checksum = crc32c(bytes);
  std::memcpy(bytes.data() + checksum_at, &of.checksum, sizeof of.checksum);
  return bytes;
}

std::optional<manifest> decode(os::const_bytes bytes, std::string& flaw) {
  manifest m{};
  const auto refuse = [&](const char* why) {
    flaw = why;
    return std::nullopt;
  };
  if (bytes.size() < sizeof(manifest_header)) return refuse("it is cut off");
  std::memcpy(static_cast<manifest_header*>(&m), bytes.data(), sizeof(manifest_header));
  if (m.magic != log_magic) return refuse("it does not begin with the mark of a log");
  if (m.length < sizeof(manifest_header) || m.length > bytes.size() || m.length > manifest_copy_size)
    return refuse("its length is senseless");
  if (m.checksum != checksum_of(bytes.first(m.length))) return refuse("its checksum does not match");
  os::const_bytes rest = bytes.first(m.length).subspan(sizeof(manifest_header));
  const auto take = [&](void* into, std::size_t length) {
    if (length > rest.size()) return false;
    std::memcpy(into, rest.data(), length);
    rest = rest.subspan(length);
    return true;
  };
  if (m.file_count > rest.size() / sizeof(log_file_entry)) return refuse("its list of files is senseless");
  m.files.resize(m.file_count);
  for (log_file_entry& f : m.files) (void)take(&f, sizeof f);
  for (std::uint32_t n = 0; n < m.segment_count; ++n) {
    listed_segment s{};
    if (!take(static_cast<segment_entry*>(&s), sizeof(segment_entry)) || s.path > rest.size() ||
        round_up(s.path, 8) > rest.size())
      return refuse("its list of segments is senseless");
    s.path_text.resize(s.path);
    (void)take(s.path_text.data(), s.path);
    rest = rest.subspan(round_up(s.path, 8) - s.path);
    m.segments.push_back(std::move(s));
  }
  if (!rest.empty()) return refuse("its lists are shorter than it says");
  flaw = flaw_of(m);
  if (!flaw.empty()) return std::nullopt;
  return m;
}

std::string what_to_do_about_log(const std::string& path) {
  return "if this is the log's path, restore log and segments from a backup, of one moment; without one, `tenure log "
         "renew " +
         path + "` makes a new log, and says whether the segments have lost changes with the old one";
}

manifest new_manifest(const log_options& how, std::uint32_t storage_block_size) {
  manifest m{};
  m.magic = log_magic;
  m.version = log_format_version;
  m.endian = endian_mark;
  os::random_bytes(m.log_id);
  m.block_size = how.block_size != 0 ? how.block_size : storage_block_size;
  if (m.block_size < 512 || m.block_size > 4096 || !std::has_single_bit(m.block_size))
    throw error(errc::bad_option,
                "log block size " + std::to_string(m.block_size) + ": must be a power of two from 512 to 4096");
  if (how.size > max_log_size) throw error(errc::bad_option, "log size " + std::to_string(how.size) + ": too large");
  m.size = round_up(std::max(how.size, min_log_size), m.block_size);
  m.max_size = std::max(round_up(std::min(how.max_size, max_log_size), m.block_size), m.size);
  m.first = m.head = m.tail = 4096;  // not 0, so that 0 can mean "no LSN"
  m.clean = 1;
  m.created = m.written = os::wall_clock_ns();
  m.permissions = how.permissions;
  return m;
}

namespace {

// Whole pages: the disk writes nothing smaller.
std::vector<std::byte> in_pages(std::vector<std::byte> encoded) {
  encoded.resize(round_up(encoded.size(), 4096));
  return encoded;
}

void write_copy(os::file& to, int copy, os::const_bytes whole) {
  to.write_durably_at(static_cast<std::uint64_t>(copy) * manifest_copy_size, {&whole, 1});
}

// Gives the manifest the next sequence number, and the identity of its file.
std::vector<std::byte> seal(manifest& m, const os::file& file) {
  ++m.sequence;
  m.written = os::wall_clock_ns();
  const os::file_id id = file.id();
  m.device = id.device;
  m.inode = id.inode;
  return encode(m);
}

}  // namespace

// All is written first [rvm.log.made]. Then the first sync takes most of it to the disk, and the others find little to do.
manifest_file manifest_file::create(os::disk& disk, const std::string& path, unsigned permissions, companions& with) {
  new_file making(disk, path, permissions);
  if (disk.exists(path))
    throw error(std::make_error_code(std::errc::file_exists),
                path + ": there is a file already; remove it or choose another name");
  os::file& file = making.file();
  manifest m = with.write(file);
  file.allocate(0, 2 * manifest_copy_size);
  const std::vector<std::byte> encoded = seal(m, file);
  // Zeros are written, not only allocated: see log_file::create.
  std::vector<std::byte> whole(2 * manifest_copy_size);
  for (const std::size_t copy : {0, 1})
    std::ranges::copy(encoded, whole.begin() + static_cast<std::ptrdiff_t>(copy * manifest_copy_size));
  file.write_at(0, whole);
  with.finish();
  file.sync();
  making.give_name();
  with.give_names();
  making.make_name_durable();
  with.make_names_durable();
  return {making.take(), path, std::move(m)};
}

manifest_file manifest_file::open(os::disk& disk, const std::string& path, os::access access) {
  const auto kind = access == os::access::read_only ? os::lock_kind::shared : os::lock_kind::exclusive;
  // A log that is repaired is replaced by a rename. The lock is valid only if the locked file still has the name.
  require_not_unfinished(disk, path);
  for (;;) {
    auto file = disk.open(path, access);
    if (!file->try_lock(kind))
      throw error(errc::in_use,
                  path + ": " + file->lock_holders("object") + " has this log open; close it there first");
    if (file->is_current()) return validate(std::move(file), path, access);
  }
}

manifest_file manifest_file::open_unlocked(os::disk& disk, const std::string& path) {
  require_not_unfinished(disk, path);
  return validate(disk.open(path, os::access::read_only), path, os::access::read_only);
}

manifest_file manifest_file::validate(std::unique_ptr<os::file> file, const std::string& path, os::access access) {
  if (file->size() < 2 * manifest_copy_size)
    throw error(errc::not_a_log, path + ": not a log: it has " + std::to_string(file->size()) +
                                     " bytes, the manifest of a log has at least " +
                                     std::to_string(2 * manifest_copy_size) + "; " + what_to_do_about_log(path));
  std::optional<manifest> copies[2];
  std::string flaws[2];
  bool any_magic = false;
  for (int i = 0; i < 2; ++i) {
    std::vector<std::byte> bytes(manifest_copy_size);
    bytes.resize(file->read_at(static_cast<std::uint64_t>(i) * manifest_copy_size, bytes));
    manifest_header h{};
    if (bytes.size() >= sizeof h) std::memcpy(&h, bytes.data(), sizeof h);
    if (h.magic == log_magic) {
      any_magic = true;
      // Checked before the checksum, because another version may compute the checksum in another way.
      if (h.endian != endian_mark && h.endian == __builtin_bswap32(endian_mark))
        throw error(errc::wrong_version,
                    path + ": this log was written on a machine of the other byte order; recover it there");
      // In version 1 the checksum was that of the bytes before it.
      const bool of_version_1 = h.version == 1 && h.checksum == header_checksum(h, checksum_at);
      if (of_version_1 || (h.version != log_format_version && h.length >= sizeof h && h.length <= bytes.size() &&
                           h.checksum == checksum_of(os::const_bytes(bytes).first(h.length))))
        throw error(errc::wrong_version, path + ": log format version " + std::to_string(h.version) +
                                             ", this library has " + std::to_string(log_format_version) + "; " +
                                             (of_version_1 ? "`tenure upgrade` makes a new log of it and its segments, "
                                                             "or a new store of its store"
                                                           : "use the version of the library that wrote it"));
    }
    copies[i] = decode(bytes, flaws[i]);
  }
  if (!any_magic)
    throw error(errc::not_a_log,
                path + ": not a log: neither copy of its manifest has the mark of one; " + what_to_do_about_log(path));
  if (!copies[0] && !copies[1])
    throw error(errc::damaged, path + ": both copies of the log's manifest are damaged: " + copy_name(0) + ": " +
                                   flaws[0] + "; " + copy_name(1) + ": " + flaws[1] + "; " +
                                   what_to_do_about_log(path));
  const bool second = copies[0] ? copies[1] && copies[1]->sequence > copies[0]->sequence : true;
  const manifest& used = *copies[second ? 1 : 0];
  if ((used.incompatible & ~(feature_bulk_runs | feature_changes)) != 0 ||
      (access == os::access::read_write && used.read_only_compatible != 0))
    throw error(errc::wrong_version,
                path + ": the log uses features that this version of the library does not know; use a newer one");
  manifest_file found(std::move(file), path, used);
  for (int i = 0; i < 2; ++i) found.copy_valid_[i] = copies[i].has_value();
  found.held_ = second ? 1 : 0;
  // If a write has failed, this copy may be in the page cache only. Then the other copy is valid and durable. If the
  // other copy is torn, this one is the only valid copy and must not be overwritten.
  found.held_is_durable_ = !copies[0] || !copies[1];
  return found;
}

// All memory is taken before anything is written [rvm.log.memory].
void manifest_file::write(const manifest& wanted) {
  manifest next = wanted;
  next.sequence = written_.sequence;
  const std::vector<std::byte> encoded = in_pages(seal(next, *file_));
  manifest current = next;
  const std::vector<std::byte> held_bytes = held_is_durable_ ? std::vector<std::byte>() : in_pages(encode(written_));
  try {
    // After a failed sync, the blocks that were found at opening may be in the page cache only.
    if (!held_is_durable_) write_copy(*file_, held_, held_bytes);
    held_is_durable_ = true;
    const int held = held_;
    write_copy(*file_, 1 - held, encoded);
    held_ = 1 - held;
    write_copy(*file_, held, encoded);
  } catch (const std::bad_alloc&) {  // of a disk that is not the operating system's
    throw error(std::make_error_code(std::errc::not_enough_memory), path_ + ": memory was short when it was written");
  }
  current_ = std::move(current);
  written_ = std::move(next);
}

}  // namespace tenure::rvm
