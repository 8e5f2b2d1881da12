// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Linux gives address space for nothing if it cannot be written: not counted by strict overcommit, backed by the zero page
// where it is read. The shadow of watched memory is one file of 0xff in memory, mapped again and again.
#include "barriers/shadow.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <sys/mman.h>
#include <unistd.h>

#include "barriers/linked.hpp"
#include "barriers/message.hpp"

namespace tenure::barriers {

namespace {

constexpr std::uintptr_t offset = TENURE_SHADOW_OFFSET;
constexpr std::uintptr_t end_of_addresses = std::uintptr_t{1} << 47;
constexpr std::uintptr_t shadow_end = offset + end_of_addresses / 8;
constexpr std::uintptr_t homes_from = 0x110000000000;  // where databases are placed
static_assert(shadow_end <= homes_from);

constexpr std::size_t page = 4096;
constexpr std::size_t smallest_file = std::size_t{64} << 10, largest_file = std::size_t{32} << 20;
constexpr std::size_t mappings_wanted = 16;  // at a time, if the file need not be larger than largest_file for it
constexpr unsigned char watched = 0xff;

int file = -1;
std::size_t file_length = 0;

[[noreturn]] void cannot_mark() {
  give_up(
      "tenure: there is no memory, or there are too many mappings (vm.max_map_count), for the shadow of a region with "
      "barriers: build with tenure::barriers_outlined\n");
}

// The file has at least this length, of 0xff.
void extend_file(std::size_t length) noexcept {
  if (length <= file_length) return;
  if (file < 0) file = memfd_create("tenure-shadow", MFD_CLOEXEC);
  static unsigned char block[smallest_file];
  std::fill_n(block, sizeof block, watched);
  while (file_length < length) {
    const ssize_t written =
        pwrite(file, block, std::min(length - file_length, sizeof block), static_cast<off_t>(file_length));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) cannot_mark();
    file_length += static_cast<std::size_t>(written);
  }
}

// Part of one page of the shadow, which other regions may share.
void fill_part(std::uintptr_t begin, std::uintptr_t end, unsigned char value) noexcept {
  if (begin >= end) return;
  if (mprotect(reinterpret_cast<void*>(begin / page * page), page, PROT_READ | PROT_WRITE) != 0) cannot_mark();
  std::fill(reinterpret_cast<unsigned char*>(begin), reinterpret_cast<unsigned char*>(end), value);
}

void map_zeros(std::uintptr_t begin, std::uintptr_t end) noexcept {
  if (mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    cannot_mark();
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTDUMP);
}

void map_marks(std::uintptr_t begin, std::uintptr_t end) noexcept {
  std::size_t length = smallest_file;
  while (length < largest_file && length * mappings_wanted < end - begin) length *= 2;
  extend_file(std::min(length, end - begin));
  for (std::uintptr_t at = begin; at < end; at += length)
    if (mmap(reinterpret_cast<void*>(at), std::min(length, end - at), PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) ==
        MAP_FAILED)
      cannot_mark();
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTDUMP);
}

// Whole pages of the shadow belong to one region.
void mark(std::uintptr_t begin, std::uintptr_t end, bool is_watched) noexcept {
  if (begin >= end) return;
  const std::uintptr_t first = offset + begin / 8, last = offset + (end + 7) / 8;
  const unsigned char value = is_watched ? watched : 0;
  const std::uintptr_t whole_begin = (first + page - 1) / page * page, whole_end = last / page * page;
  if (whole_begin > whole_end) return fill_part(first, last, value);
  fill_part(first, whole_begin, value);
  if (whole_begin < whole_end) (is_watched ? map_marks : map_zeros)(whole_begin, whole_end);
  fill_part(whole_end, last, value);
}

}  // namespace

void reserve_shadow() noexcept {
  void* const at = reinterpret_cast<void*>(offset);
  void* const got = mmap(at, shadow_end - offset, PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != at)
    give_up(
        "tenure: this program is compiled with barriers of the inline form, which take 16 TiB of address space at a "
        "fixed "
        "place. They are not free here: ulimit -v, valgrind and sanitizers take them. Build with the outlined form: "
        "tenure::barriers_outlined, or pkg-config tenure-barriers-outlined\n");
  madvise(at, shadow_end - offset, MADV_DONTDUMP);
}

void link_shadow() noexcept {}

void mark_watched(std::uintptr_t begin, std::uintptr_t end) noexcept { mark(begin, end, true); }
void mark_unwatched(std::uintptr_t begin, std::uintptr_t end) noexcept { mark(begin, end, false); }

}  // namespace tenure::barriers
