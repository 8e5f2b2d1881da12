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
  h.version = rvm::format_version;
  h.endian = rvm::endian_mark;
  h.segment_id = segment_identity;
  h.sequence = 1;
  h.length = h.max_length = segment_length;
  h.data_offset = data_offset;
  h.checksum = rvm::header_checksum(h, offsetof(rvm::segment_header, checksum));
  return h;
}
inline rvm::status_block plain_status(std::uint32_t block_size = 512) {
  rvm::status_block s{};
  s.magic = rvm::log_magic;
  s.version = rvm::format_version;
  s.endian = rvm::endian_mark;
  s.log_id = log_identity;
  s.sequence = 1;
  s.generation = 5;
  s.block_size = block_size;
  s.area_length = s.max_area = rvm::min_log_area;
  s.head = s.tail = s.area_length;
  s.checksum = rvm::header_checksum(s, offsetof(rvm::status_block, checksum));
  return s;
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
  how.log = {.size = rvm::min_log_area, .max_size = 4 * rvm::min_log_area, .block_size = 512};
  how.recovery_memory = 8 << 20;
  how.background = false;
  how.disk = &disk;
  return how;
}

// The log at log_path has just been opened and closed without an error: it must go on working.
inline void use_and_reopen(sim::disk& disk) {
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
      {errc::wrong_log});
  if (!usable) return;
  must("a log that was used must open again", [&] {
    rvm::memory memory(log_path, small(disk));
    require(!memory.recovery().needed, "a log closed cleanly needed recovery");
    rvm::region region = memory.map(segment_path);
    require(!written || std::memcmp(region.data() + 100, text, sizeof text) == 0, "a commit was lost");
    require(memory.verify_segment(segment_path).empty(), "a checksum is wrong");
    memory.close();
  });
}

}  // namespace tenure::fuzz
