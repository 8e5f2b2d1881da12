// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// What the fuzzers share: taking an input apart, a disk with two segments, and what may be thrown.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenure/rvm.hpp>

#include "log/checksum.hpp"
#include "log/manifest.hpp"
#include "records/format.hpp"
#include "sim/disk.hpp"

// AddressSanitizer asks for this. Freed memory is kept for a while, but not so much that most time goes into clearing new.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=4"; }

namespace tenure::fuzz {

inline constexpr const char* log_path = "/d/log";
inline constexpr const char* segment_path = "/d/seg";
inline constexpr const char* raw_path = "/d/raw";
inline constexpr std::uint64_t segment_length = 24 * std::uint64_t{4096};
inline constexpr std::uint64_t raw_length = 4 * std::uint64_t{4096};
inline constexpr std::uint64_t data_offset = 2 * rvm::segment_alignment;

// What must hold whatever the input is.
inline void require(bool holds, const char* what, const std::string& detail = {}) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s%s%s\n", what, detail.empty() ? "" : ": ", detail.c_str());
  std::abort();
}

// The last error that accepted() saw, for messages.
inline std::string last_error;

// Runs f, which must return or throw a tenure::error that says something; true if it returned.
template <class F>
bool accepted(F&& f) {
  try {
    std::forward<F>(f)();
    return true;
  } catch (const error& thrown) {
    require(thrown.code() && std::strlen(thrown.what()) > 10, "an error without code or message");
    last_error = thrown.what();
    return false;
  }
}
// The same where there is no reason to throw, except with the codes named.
template <class F>
bool must(const char* what, F&& f, std::initializer_list<errc> allowed = {}) {
  try {
    std::forward<F>(f)();
    return true;
  } catch (const error& thrown) {
    require(std::ranges::any_of(allowed, [&](errc code) { return thrown.code() == code; }), what, thrown.what());
    return false;
  }
}

// An input, taken from the front; zeros follow its end.
class byte_source {
 public:
  byte_source(const std::uint8_t* data, std::size_t size) : left_(reinterpret_cast<const std::byte*>(data), size) {}

  template <class T>
  T take() {
    T value{};
    const std::size_t part = std::min(sizeof value, left_.size());
    std::memcpy(&value, left_.data(), part);
    left_ = left_.subspan(part);
    return value;
  }
  std::uint8_t byte() { return take<std::uint8_t>(); }
  std::uint64_t below(std::uint64_t bound) { return bound <= 256 ? byte() % bound : take<std::uint32_t>() % bound; }
  os::const_bytes take_bytes(std::size_t length) {
    const auto front = left_.first(std::min(length, left_.size()));
    left_ = left_.subspan(front.size());
    return front;
  }
  [[nodiscard]] bool empty() const { return left_.empty(); }
  [[nodiscard]] std::size_t left() const { return left_.size(); }

 private:
  os::const_bytes left_;
};

template <class T>
void put(std::vector<std::byte>& into, std::size_t at, const T& value) {
  if (into.size() < at + sizeof value) into.resize(at + sizeof value);
  std::memcpy(into.data() + at, &value, sizeof value);
}

inline rvm::identity fixed_identity(std::uint8_t seed) {
  rvm::identity id;
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(seed + i);
  return id;
}
inline const rvm::identity segment_identity = fixed_identity(1);
inline const rvm::identity log_identity = fixed_identity(101);

inline rvm::segment_header plain_segment_header() {
  rvm::segment_header h{};
  h.magic = rvm::segment_magic;
  h.version = rvm::segment_format_version;
  h.endian = rvm::endian_mark;
  h.segment_id = segment_identity;
  h.sequence = 1;
  h.length = h.max_length = segment_length;
  h.data_offset = data_offset;
  h.checksum = rvm::header_checksum(h, offsetof(rvm::segment_header, checksum));
  return h;
}
// Of a log that was not closed, before its files are listed.
inline rvm::manifest plain_manifest(std::uint32_t block_size = 512) {
  rvm::manifest m{};
  m.magic = rvm::log_magic;
  m.version = rvm::log_format_version;
  m.endian = rvm::endian_mark;
  m.log_id = log_identity;
  m.sequence = 1;
  m.generation = 5;
  m.block_size = block_size;
  m.size = m.max_size = rvm::min_log_size;
  m.first = m.head = m.tail = 4096;
  return m;
}
// The log that has these bytes, from `base` on, in files of this length.
inline void install_log(sim::disk& disk, rvm::manifest of, std::uint64_t base, os::const_bytes bytes,
                        std::size_t file_length) {
  for (std::uint32_t number = 1; !bytes.empty(); ++number) {
    const auto part = bytes.first(std::min(file_length, bytes.size()));
    rvm::log_file_header h{};
    h.magic = rvm::log_file_magic;
    h.version = rvm::log_format_version;
    h.endian = rvm::endian_mark;
    h.log_id = of.log_id;
    h.sequence = h.number = number;
    h.block_size = of.block_size;
    h.base = base;
    h.length = part.size();
    h.checksum = rvm::header_checksum(h, offsetof(rvm::log_file_header, checksum));
    std::vector<std::byte> file(rvm::log_file_data);
    for (const std::size_t copy : {std::uint64_t{0}, rvm::log_file_copy_size}) put(file, copy, h);
    file.insert(file.end(), part.begin(), part.end());
    disk.install(log_path + ("." + std::to_string(number)), file);
    of.files.push_back({.number = number, .reserved = 0, .length = part.size(), .device = 0, .inode = 0});
    base += part.size();
    bytes = bytes.subspan(part.size());
  }
  std::vector<std::byte> manifest = rvm::encode(of);
  manifest.resize(rvm::manifest_copy_size);
  manifest.insert(manifest.end(), manifest.begin(), manifest.end());
  disk.install(log_path, manifest);
}

// A segment with a header and one without, both zero and always the same, so that a stored log fits them. With changes in
// that log, unless it is null.
inline void install_segments(sim::disk& disk, const rvm::identity* log = nullptr) {
  std::vector<std::byte> with_header(data_offset + segment_length);
  rvm::segment_header header = plain_segment_header();
  if (log != nullptr) {
    header.in_log = 1;
    header.log_id = *log;
    header.checksum = rvm::header_checksum(header, offsetof(rvm::segment_header, checksum));
  }
  for (const std::size_t copy : {0, 4096}) put(with_header, copy, header);
  static const std::vector<std::byte> without(raw_length);
  disk.install(segment_path, with_header);
  disk.install(raw_path, without);
}

inline rvm::options small(sim::disk& disk, rvm::open_mode mode = rvm::open_mode::open) {
  rvm::options how;
  how.mode = mode;
  how.log = {.size = rvm::min_log_size, .max_size = 4 * rvm::min_log_size, .block_size = 512};
  how.recovery_memory = 8 << 20;
  how.background = false;
  how.disk = &disk;
  how.copied = rvm::copied_files::adopt;  // files are put on the disk as they are
  return how;
}

// The log at log_path has just been opened and closed without an error: it must go on working. With forged counters it may be
// that the next ones are refused.
inline void use_and_reopen(sim::disk& disk, bool has_forged_counters = false) {
  const char text[] = "written after recovery";
  bool written = false;
  // The segment may wait for another log.
  const bool usable = must(
      "a log that opens must be usable",
      [&] {
        rvm::memory memory(log_path, small(disk));
        rvm::region region = memory.map(segment_path);
        // The log's own limit on growth may be that small.
        written = must("commit",
                       [&] { memory.transact([&](auto& tx) { tx.modify(region.data() + 100, text, sizeof text); }); },
                       {errc::too_big});
        memory.close();
      },
      {errc::wrong_log, has_forged_counters ? errc::damaged : errc::wrong_log});
  if (!usable) return;
  const auto reopen = [&] {
    rvm::memory memory(log_path, small(disk));
    require(!memory.recovery().needed, "a log closed cleanly needed recovery");
    rvm::region region = memory.map(segment_path);
    require(!written || std::memcmp(region.data() + 100, text, sizeof text) == 0, "a commit was lost");
    require(memory.verify_segment(segment_path).empty(), "a checksum is wrong");
    memory.close();
  };
  if (has_forged_counters)
    must("a log that was used must open again", reopen, {errc::damaged});
  else
    must("a log that was used must open again", reopen);
}

}  // namespace tenure::fuzz
