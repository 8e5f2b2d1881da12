// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "harness/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace tenure::bench {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream in{path};
  std::string line;
  std::getline(in, line);
  return line;
}

// The value behind `key` in a file of "key : value" lines.
std::string value_in(const std::filesystem::path& path, const std::string& key) {
  std::ifstream in{path};
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::uint64_t bytes_of_status(const std::string& key) {
  std::istringstream value{value_in("/proc/self/status", key)};
  std::uint64_t kilobytes = 0;
  value >> kilobytes;
  return kilobytes * 1024;
}

// The mount that holds `directory`: the longest mount point that is a prefix of it.
void describe_mount(const std::filesystem::path& directory, machine_report& report) {
  const std::string wanted = std::filesystem::weakly_canonical(directory).string();
  std::ifstream in{"/proc/self/mounts"};
  std::size_t longest = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields{line};
    std::string device, point, type, options;
    fields >> device >> point >> type >> options;
    const bool holds = wanted.compare(0, point.size(), point) == 0 &&
                       (point == "/" || wanted.size() == point.size() || wanted[point.size()] == '/');
    if (!holds || point.size() < longest) continue;
    longest = point.size();
    report.device = device;
    report.file_system = type;
    report.mount_options = options;
  }
}

class descriptor {
 public:
  descriptor(const std::filesystem::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), path.string());
  }
  ~descriptor() { ::close(fd_); }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct page_count {
  std::uint64_t all = 0, cached = 0;
};

page_count count_pages(const descriptor& file, const std::filesystem::path& path) {
  struct stat found = {};
  if (::fstat(file.get(), &found) != 0) throw std::system_error(errno, std::generic_category(), path.string());
  const auto length = static_cast<std::size_t>(found.st_size);
  if (length == 0) return {};
  void* mapped = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return {};
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((length + page - 1) / page);
  const bool known = ::mincore(mapped, length, pages.data()) == 0;
  ::munmap(mapped, length);
  if (!known) return {};
  const auto cached = std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1U) != 0; });
  return {pages.size(), static_cast<std::uint64_t>(cached)};
}

}  // namespace

machine_report describe_machine(const std::filesystem::path& directory) {
  machine_report report;
  utsname name = {};
  if (::uname(&name) == 0) report.kernel = fmt::format("{} {} {}", name.sysname, name.release, name.machine);
  report.cpu = value_in("/proc/cpuinfo", "model name");
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0) report.cpus = static_cast<unsigned>(CPU_COUNT(&allowed));
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) report.memory = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  describe_mount(directory, report);
  report.huge_pages = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (report.huge_pages.empty()) report.huge_pages = "unavailable";
  report.load = first_line("/proc/loadavg");
  return report;
}

std::string to_text(const machine_report& machine) {
  return fmt::format(
      "kernel      {}\nprocessor   {}, {} usable\nmemory      {} MiB, transparent huge pages {}\n"
      "file system {} ({}) on {}\nload        {}\n",
      machine.kernel, machine.cpu, machine.cpus, machine.memory >> 20, machine.huge_pages, machine.file_system,
      machine.mount_options, machine.device, machine.load);
}

raised_priority::raised_priority(bool wanted) {
  if (!wanted) return;
  sched_param how = {};
  how.sched_priority = 1;
  if (::sched_setscheduler(0, SCHED_RR, &how) == 0) {
    means_ = "SCHED_RR";
  } else if (::setpriority(PRIO_PROCESS, 0, -10) == 0) {
    means_ = "nice -10";
  }
}

raised_priority::~raised_priority() {
  sched_param ordinary = {};
  ::sched_setscheduler(0, SCHED_OTHER, &ordinary);
  ::setpriority(PRIO_PROCESS, 0, 0);
}

scratch_directory::scratch_directory(const std::filesystem::path& parent, const std::string& prefix) {
  std::filesystem::create_directories(parent);
  std::string pattern = (parent / (prefix + "-XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), pattern);
  path_ = pattern;
}

scratch_directory::~scratch_directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

double drop_from_cache(const std::filesystem::path& file) {
  const descriptor opened{file, O_RDONLY};
  if (::fdatasync(opened.get()) != 0) throw std::system_error(errno, std::generic_category(), file.string());
  ::posix_fadvise(opened.get(), 0, 0, POSIX_FADV_DONTNEED);
  const page_count left = count_pages(opened, file);
  return left.all == 0 ? 0 : static_cast<double>(left.cached) / static_cast<double>(left.all);
}

std::uint64_t pages_in_cache(const std::filesystem::path& file) {
  return count_pages(descriptor{file, O_RDONLY}, file).cached;
}

void load_into_cache(const std::filesystem::path& file) {
  const descriptor opened{file, O_RDONLY};
  std::vector<char> buffer(std::size_t{1} << 20);
  while (::read(opened.get(), buffer.data(), buffer.size()) > 0) {
  }
}

std::uint64_t peak_resident_bytes() { return bytes_of_status("VmHWM"); }
resident_memory resident_now() { return {bytes_of_status("VmRSS"), bytes_of_status("RssAnon")}; }

}  // namespace tenure::bench
