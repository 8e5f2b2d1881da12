// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// How long a program waits until a large segment is in its memory.
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <tenure/rvm.hpp>

#include "tpca/options.hpp"

namespace tenure::bench::tpca {
namespace {

using clock = std::chrono::steady_clock;
constexpr std::uint64_t stamp = 0x5eed5eed5eed5eed;

double milliseconds_since(clock::time_point start) {
  return std::chrono::duration<double, std::milli>(clock::now() - start).count();
}

class mapping {
 public:
  mapping(const program_options& how, std::uint64_t length) : directory_(how.directory / "map"), length_(length) {
    std::filesystem::create_directories(directory_);
    rvm::memory memory{log()};
    auto region = memory.map(segment(), {.create_length = length});
    memory.transact([&](rvm::transaction& tx) { tx.modify(last_word(region), stamp); });
    region.unmap();
    memory.close();
    load_into_cache(segment());
  }

  measurement map(bool copy_in) const {
    rvm::memory memory{log()};
    const auto start = clock::now();
    auto region = memory.map(segment(), {.copy_in = copy_in});
    const double taken = milliseconds_since(start);
    check(region.size(), last_word(region));
    region.unmap();
    memory.close();
    return {{"milliseconds", taken}};
  }
  measurement open_and_map() const {
    const auto start = clock::now();
    rvm::memory memory{log()};
    auto region = memory.map(segment());
    const double taken = milliseconds_since(start);
    check(region.size(), last_word(region));
    region.unmap();
    memory.close();
    return {{"milliseconds", taken}};
  }

  // The system call alone, on the same file.
  measurement raw_mmap() const {
    const auto start = clock::now();
    const int fd = ::open(segment().c_str(), O_RDONLY | O_CLOEXEC);
    void* at = ::mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    const double taken = milliseconds_since(start);
    if (fd < 0 || at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    ::munmap(at, length_);
    ::close(fd);
    return {{"milliseconds", taken}};
  }
  // The file's bytes, read into fresh memory in large pieces.
  measurement raw_read() const {
    const auto start = clock::now();
    const int fd = ::open(segment().c_str(), O_RDONLY | O_CLOEXEC);
    void* at = ::mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fd < 0 || at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    std::uint64_t done = 0;
    while (done < length_) {
      const auto got = ::read(fd, static_cast<char*>(at) + done, std::min<std::uint64_t>(4 * mib, length_ - done));
      if (got <= 0) throw std::system_error(errno, std::generic_category(), "read");
      done += static_cast<std::uint64_t>(got);
    }
    const double taken = milliseconds_since(start);
    ::munmap(at, length_);
    ::close(fd);
    return {{"milliseconds", taken}};
  }

 private:
  std::string log() const { return (directory_ / "map.log").string(); }
  std::string segment() const { return (directory_ / "map.seg").string(); }
  static std::uint64_t& last_word(const rvm::region& region) {
    return region.at<std::uint64_t>(region.size() - sizeof(std::uint64_t));
  }
  void check(std::size_t size, std::uint64_t word) const {
    if (size != length_ || word != stamp) throw std::runtime_error("the mapped segment is not what was stored");
  }

  std::filesystem::path directory_;
  std::uint64_t length_;
};

}  // namespace

bool run_mapping_case(const program_options& how) {
  const std::uint64_t length = how.quick ? 128 * mib : 1024 * mib;
  const std::string name = how.quick ? "map-128MiB" : "map-1GiB";
  if (!how.wants_case(name)) return true;
  fmt::print(
      "{}: until a segment of {} MiB is mapped, its file in the page cache; baselines: mmap of the file, read of"
      " the file into fresh memory\n  the segment was created zero-filled, its last word is checked; huge pages"
      " {}\n",
      name, length / mib, how.machine.huge_pages);
  const mapping of{how, length};
  const std::vector<entrant> entrants{
      {"tenure", [&] { return of.map(false); }, "raw-mmap"},
      {"tenure-open-and-map", [&] { return of.open_and_map(); }, "raw-mmap"},
      {"tenure-copy-in", [&] { return of.map(true); }, "raw-read"},
  };
  round_options rounds;
  rounds.repeat = how.repeat != 0 ? how.repeat : 5;
  rounds.compared = "milliseconds";
  const auto outcomes = run_rounds(
      entrants, {{"raw-mmap", [&] { return of.raw_mmap(); }}, {"raw-read", [&] { return of.raw_read(); }}}, rounds);
  const nlohmann::json context{{"segment_bytes", length},      {"huge_pages", how.machine.huge_pages},
                               {"kernel", how.machine.kernel}, {"file_system", how.machine.file_system},
                               {"quick", how.quick},           {"page_cache", "warm"}};
  const bool good = report_case(how, name, outcomes, {{"milliseconds", "ms", "ms"}}, {}, context);
  fmt::print("\n");
  std::filesystem::remove_all(how.directory / "map");
  return good;
}

}  // namespace tenure::bench::tpca
