// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/writable_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "os/pagemap.hpp"
#include "os/virtual_memory.hpp"

namespace tenure::os {
namespace {

class kernel_file {
 public:
  explicit kernel_file(const char* path) : number_(::open(path, O_RDONLY | O_CLOEXEC)) {}
  ~kernel_file() {
    if (number_ >= 0) ::close(number_);
  }
  kernel_file(const kernel_file&) = delete;
  kernel_file& operator=(const kernel_file&) = delete;
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

struct mapping {
  std::uintptr_t begin = 0, end = 0;
  bool is_writable = false, is_shared = false, is_device = false;
};

// "7f1e4a000000-7f1e4a021000 rw-p 00000000 00:00 0          [heap]"
bool parse(std::string_view line, mapping& to) {
  const char* const end = line.data() + line.size();
  const auto from = std::from_chars(line.data(), end, to.begin, 16);
  if (from.ec != std::errc() || from.ptr == end || *from.ptr != '-') return false;
  const auto till = std::from_chars(from.ptr + 1, end, to.end, 16);
  if (till.ec != std::errc() || end - till.ptr < 6) return false;
  const char* const rights = till.ptr + 1;
  to.is_writable = rights[0] == 'r' && rights[1] == 'w';
  to.is_shared = rights[3] == 's';
  const std::size_t path = line.find('/');
  const std::string_view name = path == std::string_view::npos ? std::string_view() : line.substr(path);
  to.is_device = name.starts_with("/dev/") && !name.starts_with("/dev/shm/") && !name.starts_with("/dev/hugepages/") &&
                 !name.starts_with("/dev/zero");
  return true;
}

// Calls f(mapping) for each line of the process's maps. Returns false if they cannot be read.
template <class F>
bool for_each_mapping(F&& f) {
  // Not "self", which is empty once the program's first thread has ended.
  const kernel_file maps("/proc/thread-self/maps");
  if (!maps.is_open()) return false;
  std::array<char, 8192> text;
  std::size_t held = 0;
  for (;;) {
    const ssize_t got = ::read(maps.number(), text.data() + held, text.size() - held);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return held == 0;
    held += static_cast<std::size_t>(got);
    std::size_t line = 0;
    for (std::size_t at = 0; at < held; ++at) {
      if (text[at] != '\n') continue;
      mapping m;
      if (!parse({text.data() + line, at - line}, m)) return false;
      f(m);
      line = at + 1;
    }
    if (line == 0 && held == text.size()) return false;
    std::copy(text.begin() + static_cast<std::ptrdiff_t>(line), text.begin() + static_cast<std::ptrdiff_t>(held),
              text.begin());
    held -= line;
  }
}

enum class wanted { resident, own };

// Finds which pages are there: by PAGEMAP_SCAN where the kernel has it, otherwise by reading an entry for each page.
class resident_pages {
 public:
  [[nodiscard]] bool is_open() const { return pagemap_.is_open(); }

  // Calls f(begin, end) for runs of such pages in [from, to).
  template <class F>
  bool for_each(std::uintptr_t from, std::uintptr_t to, wanted which, F&& f) {
    while (from < to && can_scan_) {
      pm_scan_arg scan{};
      scan.size = sizeof scan;
      scan.start = from;
      scan.end = to;
      scan.vec = reinterpret_cast<std::uint64_t>(found_.data());
      scan.vec_len = found_.size();
      scan.category_anyof_mask = page_is_present | page_is_swapped;
      if (which == wanted::own) scan.category_mask = scan.category_inverted = page_is_file;
      scan.return_mask = page_is_present;
      const int count = ::ioctl(pagemap_.number(), pagemap_scan, &scan);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        can_scan_ = false;
        break;
      }
      for (int n = 0; n < count; ++n) {
        const page_region& run = found_[static_cast<std::size_t>(n)];
        f(static_cast<std::uintptr_t>(run.start), static_cast<std::uintptr_t>(run.end));
      }
      if (scan.walk_end <= from) return false;
      from = static_cast<std::uintptr_t>(scan.walk_end);
    }
    return from >= to || read_entries(from, to, which, f);
  }

 private:
  template <class F>
  bool read_entries(std::uintptr_t from, std::uintptr_t to, wanted which, F&& f) {
    constexpr std::uint64_t present = std::uint64_t{1} << 63, swapped = std::uint64_t{1} << 62,
                            of_file = std::uint64_t{1} << 61;
    const std::size_t page = page_size();
    while (from < to) {
      const std::size_t count = std::min<std::size_t>((to - from) / page, entries_.size());
      const ssize_t got = ::pread(pagemap_.number(), entries_.data(), count * sizeof(std::uint64_t),
                                  static_cast<off_t>(from / page * sizeof(std::uint64_t)));
      if (got < 0 && errno == EINTR) continue;
      if (got < static_cast<ssize_t>(sizeof(std::uint64_t))) return false;
      for (std::size_t n = 0; n < static_cast<std::size_t>(got) / sizeof(std::uint64_t); ++n, from += page)
        if ((entries_[n] & (present | swapped)) != 0 && (which == wanted::resident || (entries_[n] & of_file) == 0))
          f(from, from + page);
    }
    return true;
  }

  const kernel_file pagemap_{"/proc/thread-self/pagemap"};
  bool can_scan_ = true;
  std::array<page_region, 256> found_;
  std::array<std::uint64_t, 1024> entries_;
};

memory_stretch stretch(std::uintptr_t begin, std::uintptr_t end) {
  return {reinterpret_cast<const std::byte*>(begin), reinterpret_cast<const std::byte*>(end)};
}

}  // namespace

bool for_each_writable(mapping_kind kind, std::span<const memory_stretch> except, void (*f)(void*, memory_stretch),
                       void* to) noexcept {
  resident_pages pages;
  if (!pages.is_open()) return false;
  bool all = true;
  const bool listed = for_each_mapping([&](const mapping& m) {
    if (!m.is_writable || m.is_device || m.is_shared != (kind == mapping_kind::shared_memory)) return;
    std::uintptr_t from = m.begin;
    const auto look = [&](std::uintptr_t until) {
      if (from < until)
        all = pages.for_each(from, until, wanted::resident, [&](std::uintptr_t begin, std::uintptr_t end) {
          f(to, stretch(begin, end));
        }) && all;
    };
    for (const memory_stretch& e : except) {
      const auto begin = reinterpret_cast<std::uintptr_t>(e.begin), end = reinterpret_cast<std::uintptr_t>(e.end);
      if (end <= from || begin >= m.end) continue;
      look(std::min(begin, m.end));
      from = std::max(from, end);
    }
    look(m.end);
  });
  return listed && all;
}

bool for_each_own_page(memory_stretch in, void (*f)(void*, memory_stretch), void* to) noexcept {
  resident_pages pages;
  return pages.is_open() &&
         pages.for_each(reinterpret_cast<std::uintptr_t>(in.begin), reinterpret_cast<std::uintptr_t>(in.end),
                        wanted::own, [&](std::uintptr_t begin, std::uintptr_t end) { f(to, stretch(begin, end)); });
}

}  // namespace tenure::os
