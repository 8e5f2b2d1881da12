// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "os/virtual_memory.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "os/map_at.hpp"
#include "os/pagemap.hpp"
#include "os/system_error.hpp"
#include "tenure/error.hpp"

namespace tenure::os {
namespace {

constexpr std::size_t huge_page_size = std::size_t{2} << 20;

std::atomic<page_mechanism> mechanism{page_mechanism::best};
std::atomic<std::size_t> least_protection{0};

std::byte* at_offset(const void* base, std::uint64_t bytes) {
  return static_cast<std::byte*>(const_cast<void*>(base)) + bytes;
}

std::string range_text(const void* address, std::size_t length) {
  return std::to_string(length) + " bytes at address " + hexadecimal(address);
}

// `otherwise` is the reason for the message if no mapping is found there.
[[noreturn]] void throw_taken(void* at, std::size_t length, const std::string& name, const std::string& otherwise) {
  const std::string there = occupant(at, length);
  throw error(errc::address_taken, "cannot map " + name + " (" + range_text(at, length) +
                                       "): " + (there.empty() ? otherwise : there + " is there") +
                                       "; remove what is there or choose another address");
}

// A descriptor that is closed at the end of the scope; -1: none.
class descriptor {
 public:
  explicit descriptor(int value) : value_(value) {}
  ~descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  [[nodiscard]] int get() const { return value_; }

 private:
  const int value_;
};

// Collects pages in ascending order into maximal runs.
class run_collector {
 public:
  explicit run_collector(const std::function<void(page_run)>& found) : found_(found) {}

  void add(std::byte* address, std::size_t length) {
    if (run_.length > 0 && run_.address + run_.length == address) {
      run_.length += length;
      return;
    }
    flush();
    run_ = {address, length};
  }

  void flush() {
    if (run_.length > 0) found_(run_);
    run_.length = 0;
  }

 private:
  const std::function<void(page_run)>& found_;
  page_run run_{nullptr, 0};
};

// Each scan returns the number of bytes from the start of the range that it has classified. That is less than `length`
// if the kernel does not offer the mechanism.

std::size_t scan_by_ioctl(int pagemap, const void* address, std::size_t length, run_collector& runs) {
  std::array<page_region, 256> regions{};  // valgrind does not know that the call fills it
  const auto base = reinterpret_cast<std::uint64_t>(address);
  pm_scan_arg scan{};
  scan.size = sizeof scan;
  scan.start = base;
  scan.end = base + length;
  scan.vec = reinterpret_cast<std::uint64_t>(regions.data());
  scan.vec_len = regions.size();
  // "In memory or in swap, and not the file's page" is exactly "privately copied".
  scan.category_inverted = page_is_file;
  scan.category_mask = page_is_file;
  scan.category_anyof_mask = page_is_present | page_is_swapped;
  scan.return_mask = page_is_file;
  while (scan.start < scan.end) {
    const int count = ::ioctl(pagemap, pagemap_scan, &scan);
    if (count < 0 || scan.walk_end <= scan.start) break;
    for (const page_region& region : std::span(regions).first(static_cast<std::size_t>(count)))
      runs.add(at_offset(address, region.start - base), region.end - region.start);
    scan.start = scan.walk_end;
  }
  return scan.start - base;
}

std::size_t scan_by_reading(int pagemap, const void* address, std::size_t length, run_collector& runs) {
  constexpr std::uint64_t present_or_swapped = std::uint64_t{3} << 62;
  constexpr std::uint64_t file_page = std::uint64_t{1} << 61;
  std::array<std::uint64_t, 1024> entries;
  const std::size_t page = page_size();
  std::size_t done = 0;
  while (done < length) {
    const std::size_t wanted = std::min(entries.size(), (length - done) / page);
    const std::uint64_t first = (reinterpret_cast<std::uint64_t>(address) + done) / page;
    const ssize_t got =
        ::pread(pagemap, entries.data(), wanted * sizeof entries[0], static_cast<off_t>(first * sizeof entries[0]));
    if (got < 0 && errno == EINTR) continue;
    const std::size_t count = got <= 0 ? 0 : static_cast<std::size_t>(got) / sizeof entries[0];
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i)
      if ((entries[i] & present_or_swapped) != 0 && (entries[i] & file_page) == 0)
        runs.add(at_offset(address, done + i * page), page);
    done += count * page;
  }
  return done;
}

void drop(std::byte* address, std::size_t length) {
  constexpr int dontneed_locked = 24;  // Linux 5.18: also drops pages that the program has locked with mlock
  int result;
  do result = ::madvise(address, length, MADV_DONTNEED);
  while (result != 0 && (errno == EINTR || errno == EAGAIN));
  if (result != 0 && errno == EINVAL) result = ::madvise(address, length, dontneed_locked);
  if (result != 0) throw_system_error(errno, "cannot give back the memory of " + range_text(address, length));
}

// A position in a list of runs.
class run_cursor {
 public:
  explicit run_cursor(std::span<const page_run> runs) : runs_(runs) {}

  [[nodiscard]] bool at_end() const { return runs_.empty(); }

  // The run that is `index` runs after the current one. For index 0, the rest of the current run.
  [[nodiscard]] page_run operator[](std::size_t index) const {
    const std::size_t skip = index == 0 ? done_ : 0;
    return {runs_[index].address + skip, runs_[index].length - skip};
  }
  [[nodiscard]] std::size_t runs_left() const { return runs_.size(); }

  void advance(std::size_t bytes) {
    done_ += bytes;
    while (!runs_.empty() && done_ >= runs_.front().length) {
      done_ -= runs_.front().length;
      runs_ = runs_.subspan(1);
    }
  }

 private:
  std::span<const page_run> runs_;
  std::size_t done_ = 0;  // bytes of the first run
};

// If the kernel refuses to go on, the cursor stays at that place.
void drop_in_batches(run_cursor& left) {
#if defined(SYS_process_madvise) && defined(SYS_pidfd_open)
  // The descriptor is not kept, because after a fork it would name the parent.
  const descriptor self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (self.get() < 0) return;
  std::array<iovec, 1024> batch;
  while (!left.at_end()) {
    const std::size_t count = std::min(batch.size(), left.runs_left());
    for (std::size_t i = 0; i < count; ++i) batch[i] = {left[i].address, left[i].length};
    const long dropped = ::syscall(SYS_process_madvise, self.get(), batch.data(), count, MADV_DONTNEED, 0);
    if (dropped <= 0) return;
    left.advance(static_cast<std::size_t>(dropped));
  }
#else
  static_cast<void>(left);
#endif
}

}  // namespace

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

void* map_at(void* at, std::size_t length, int protection, int flags, int descriptor, std::uint64_t offset,
             const std::string& name) {
  const std::size_t page = page_size();
  if (reinterpret_cast<std::uintptr_t>(at) % page != 0 || offset % page != 0 || length % page != 0 || length == 0)
    throw error(errc::misaligned, "cannot map " + name + " (" + range_text(at, length) + ", offset " +
                                      std::to_string(offset) + "): these must be multiples of the page size, " +
                                      std::to_string(page) + ", and the length not zero");

  flags |= MAP_PRIVATE | MAP_NORESERVE;
  if (at != nullptr) flags |= MAP_FIXED_NOREPLACE;
  void* const got = ::mmap(at, length, protection, flags, descriptor, static_cast<off_t>(offset));
  if (got == MAP_FAILED) {
    const int code = errno;
    if (code == EEXIST) throw_taken(at, length, name, "the address is taken");
    const std::string what = "cannot map " + name + " (" + range_text(at, length) + ")";
    if (code == ENOMEM)
      throw_system_error(
          code, what,
          "the limit may be the address space (ulimit -v), private memory (ulimit -d), the number of mappings "
          "(vm.max_map_count) or overcommitment (vm.overcommit_memory)");
    if (at != nullptr && code == EPERM)
      throw_system_error(code, what, "choose another address (ThreadSanitizer allows few)");
    throw_system_error(code, what);
  }
  // Kernels before 4.17 do not know MAP_FIXED_NOREPLACE and take the address as a hint. ThreadSanitizer changes
  // addresses outside of its windows. In both cases the mapping is at another address, and is removed.
  if (at != nullptr && got != at) {
    ::munmap(got, length);
    throw_taken(at, length, name, "only " + hexadecimal(got) + " was offered");
  }
  return got;
}

void map_over(void* at, std::size_t length, int protection, int flags, int descriptor, std::uint64_t offset,
              const std::string& name) {
  if (::mmap(at, length, protection, flags | MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, descriptor,
             static_cast<off_t>(offset)) == MAP_FAILED)
    throw_system_error(
        errno, "cannot map " + name + " (" + range_text(at, length) + ")",
        "the limit may be the number of mappings (vm.max_map_count), private memory (ulimit -d) or overcommitment "
        "(vm.overcommit_memory)");
}

void* map_anonymous(void* at, std::size_t length) {
  return map_at(at, length, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0, "anonymous memory");
}

namespace {

// The kernel aligns to ordinary pages only. So this maps more than needed, and unmaps the rest before and behind.
std::byte* map_aligned(std::size_t length, int protection, const std::string& name) {
  auto* const all =
      static_cast<std::byte*>(map_at(nullptr, length + huge_page_size, protection, MAP_ANONYMOUS, -1, 0, name));
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(all) % huge_page_size;
  unmap(all, before);
  unmap(all + before + length, huge_page_size - before);
  return all + before;
}

}  // namespace

void* map_anonymous_huge(std::size_t length) {
  std::byte* const made = map_aligned(length, PROT_READ | PROT_WRITE, "anonymous memory");
  ::madvise(made, length, MADV_HUGEPAGE);
  return made;
}

void* reserve_address_space(void* at, std::size_t length) {
  if (at == nullptr) return map_aligned(length, PROT_NONE, "reserved address space");
  return map_at(at, length, PROT_NONE, MAP_ANONYMOUS, -1, 0, "reserved address space");
}

void map_anonymous_over(void* at, std::size_t length) {
  map_over(at, length, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1, 0, "anonymous memory");
}

void map_anonymous_huge_over(void* at, std::size_t length) {
  map_anonymous_over(at, length);
  ::madvise(at, length, MADV_HUGEPAGE);
}

void reserve_again(void* at, std::size_t length) noexcept {
  (void)::mmap(at, length, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, -1, 0);
  ::madvise(at, length, MADV_DONTFORK);
}

void unmap(void* address, std::size_t length) noexcept {
  // The only other failure is that the process has too many mappings to split one. Then the memory stays mapped.
  if (address != nullptr && length != 0) ::munmap(address, length);
}

std::string occupant(const void* address, std::size_t length) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = begin + length;
  // Not "self", which is empty once the program's first thread has ended.
  std::ifstream maps("/proc/thread-self/maps");
  // "55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0          [heap]"
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t from = 0, to = 0;
    char dash = 0;
    std::string protection, offset, device, inode, name;
    words >> std::hex >> from >> dash >> to >> protection >> offset >> device >> inode >> std::ws;
    if (from >= end) break;
    if (to <= begin) continue;
    std::getline(words, name);
    return name.empty() ? "anonymous memory" : name;
  }
  return "";
}

void advise_random(void* address, std::size_t length) noexcept { ::madvise(address, length, MADV_RANDOM); }

bool advise_by_size(void* address, std::size_t length) noexcept {
  const bool is_large = length > usable_memory() / 2;
  ::madvise(address, length, is_large ? MADV_RANDOM : MADV_NORMAL);
  return is_large;
}

bool look_for_pages(const void* address, std::span<unsigned char> pages) noexcept {
  return ::mincore(const_cast<void*>(address), pages.size() * page_size(), pages.data()) == 0;
}

std::uint64_t pages_waited_for() noexcept {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_majflt);
}

void populate(void* address, std::size_t length) noexcept {
  constexpr int populate_read = 22;  // MADV_POPULATE_READ, which older headers do not have
  ::madvise(address, length, populate_read);
}

namespace {

std::uint64_t find_usable_memory() noexcept {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  std::uint64_t least = pages > 0 ? static_cast<std::uint64_t>(pages) * page_size() : ~std::uint64_t{0};
  const auto consider = [&](const std::string& file) {
    std::uint64_t limit = 0;
    if (std::ifstream in(file); in >> limit) least = std::min(least, limit);  // "max": not a number, no limit
  };
  try {
    // "0::/user.slice/a" (version 2), "4:memory:/a" (version 1). A limit may be set at any level.
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      const auto controllers = line.find(':') + 1, path = line.find(':', controllers) + 1;
      if (controllers == 0 || path == 0) continue;
      const bool v2 = path == controllers + 1;
      if (!v2 && line.substr(controllers, path - 1 - controllers).find("memory") == std::string::npos) continue;
      for (std::string group = line.substr(path);; group.resize(group.rfind('/'))) {
        if (group == "/") group.clear();
        consider(v2 ? "/sys/fs/cgroup" + group + "/memory.max"
                    : "/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes");
        if (group.rfind('/') == std::string::npos) break;
      }
    }
  } catch (...) {  // out of memory for a file name
  }
  return least;
}

}  // namespace

std::uint64_t usable_memory() noexcept {
  static const std::uint64_t found = find_usable_memory();
  return found;
}

int protect(void* address, std::size_t length, access how) noexcept {
  if (length < least_protection.load(std::memory_order_relaxed)) return ENOMEM;
  return ::mprotect(address, length, how == access::read_write ? PROT_READ | PROT_WRITE : PROT_READ) == 0 ? 0 : errno;
}

void refuse_protection_below(std::size_t length) noexcept { least_protection.store(length, std::memory_order_relaxed); }

void exclude_from_fork(void* address, std::size_t length) noexcept { ::madvise(address, length, MADV_DONTFORK); }
void include_in_fork(void* address, std::size_t length) noexcept { ::madvise(address, length, MADV_DOFORK); }

void make_private(void* at) noexcept {
  auto* const byte = static_cast<volatile unsigned char*>(at);
#if defined(__x86_64__)
  asm volatile("lock orb $0, %0" : "+m"(*byte) : : "memory", "cc");  // compilers turn the builtin into a load
#else
  __atomic_fetch_or(byte, 0, __ATOMIC_RELAXED);
#endif
}

void append_page(page_runs& runs, std::byte* page, std::size_t length) {
  if (!runs.empty() && runs.back().address + runs.back().length == page)
    runs.back().length += length;
  else
    runs.push_back({page, length});
}

void drop_private_copies(std::span<const page_run> runs) {
  constexpr std::size_t worth_a_batch = 4;  // for fewer runs, opening the descriptor costs more than it saves
  run_cursor left(runs);
  left.advance(0);
  if (runs.size() >= worth_a_batch && mechanism.load(std::memory_order_relaxed) == page_mechanism::best)
    drop_in_batches(left);
  while (!left.at_end()) {
    const page_run run = left[0];
    drop(run.address, run.length);
    left.advance(run.length);
  }
}

void for_each_private_copy(const void* address, std::size_t length, const std::function<void(page_run)>& found) {
  const page_mechanism allowed = mechanism.load(std::memory_order_relaxed);
  run_collector runs(found);
  std::size_t done = 0;
  if (allowed != page_mechanism::none) {
    // Opened at each call, because a descriptor that was opened before a fork shows the parent.
    const descriptor pagemap(::open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC));
    if (pagemap.get() >= 0) {
      if (allowed == page_mechanism::best) done = scan_by_ioctl(pagemap.get(), address, length, runs);
      done += scan_by_reading(pagemap.get(), at_offset(address, done), length - done, runs);
    }
  }
  if (done < length) runs.add(at_offset(address, done), length - done);
  runs.flush();
}

bool knows_private_copies() noexcept {
  if (mechanism.load(std::memory_order_relaxed) == page_mechanism::none) return false;
  const descriptor pagemap(::open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC));
  return pagemap.get() >= 0;
}

void force_page_mechanism(page_mechanism which) noexcept { mechanism.store(which, std::memory_order_relaxed); }

}  // namespace tenure::os
