// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Writes first inputs for the fuzzers, made by the library itself: make_corpus DIRECTORY. Needed again only when a format
// changes. (log_body and workload, whose inputs are programs, need no such help.)
#include <filesystem>
#include <fstream>

#include <tenure/loader.hpp>

#include "fuzz_support.hpp"

namespace {

using namespace tenure;
using namespace tenure::fuzz;

std::filesystem::path directory;

void write(const std::string& fuzzer, const std::string& name, std::uint8_t how, std::vector<std::byte> bytes) {
  while (!bytes.empty() && bytes.back() == std::byte{}) bytes.pop_back();
  bytes.insert(bytes.begin(), static_cast<std::byte>(how));
  std::filesystem::create_directories(directory / fuzzer);
  std::ofstream file(directory / fuzzer / name, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void write_log(const sim::disk& disk, const std::string& name) {
  write("log_open", name, 1, disk.current_bytes(log_path));
}

// The groups of a log, each as the parser gets it: without its header.
void write_groups(const sim::disk& disk, const std::string& name) {
  const auto bytes = disk.current_bytes(log_path);
  int number = 0;
  for (std::size_t at = rvm::log_area_offset; at + sizeof(rvm::group_header) <= bytes.size(); at += 512) {
    rvm::group_header header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.magic != rvm::group_magic || header.records > 127 || number == 4) continue;
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    write("group", name + std::to_string(++number), static_cast<std::uint8_t>(header.records << 1),
          {begin + sizeof header, begin + header.length});
  }
}

std::unique_ptr<sim::disk> disk_with_segments() {
  auto disk = std::make_unique<sim::disk>();
  install_segments(*disk);
  return disk;
}

void make_logs() {
  const auto disk = disk_with_segments();
  rvm::options how = small(*disk, rvm::open_mode::open_or_create);
  how.tune.truncation_threshold = 2;
  const auto change = [](rvm::memory& in, rvm::region& region, std::size_t offset, std::size_t length,
                         rvm::commit_mode mode) {
    const std::vector<char> value(length, 'x');
    auto tx = in.begin();
    tx.label("change");
    tx.modify(region.data() + offset, value.data(), length);
    tx.modify(region.data() + offset + 2 * length, value.data(), length);
    tx.commit(mode);
  };
  {
    rvm::memory memory(log_path, how);
    write_log(*disk, "fresh");
    {
      rvm::region region = memory.map(segment_path);
      for (std::size_t i = 0; i < 4; ++i) change(memory, region, i * 1000, 20 + i, rvm::commit_mode::flush);
      write_log(*disk, "four_commits");
      for (std::size_t i = 0; i < 4; ++i) change(memory, region, i * 300, 20 + i, rvm::commit_mode::no_flush);
      memory.flush();
      change(memory, region, 5000, 900, rvm::commit_mode::flush);
      rvm::region raw = memory.map(raw_path, {.raw = true});
      auto tx = memory.begin();
      tx.modify(region.data(), "first", 5);
      tx.modify(raw.data() + 10, "second", 6);
      tx.commit();
      write_log(*disk, "two_segments");
      write_groups(*disk, "two_segments");
      write_log(*disk->crash(1, sim::policy::keep_all), "crashed");
      disk->crash_at(disk->operations() + 1, 3);
      try {
        change(memory, raw, 500, 800, rvm::commit_mode::flush);
      } catch (const sim::power_failure&) {
      }
      write_log(*disk->crash(3, sim::policy::keep_all), "torn");
    }
  }
  {
    const auto straight = disk_with_segments();
    how.disk = straight.get();
    rvm::memory memory(log_path, how);
    rvm::region region = memory.map(segment_path);
    auto tx = memory.begin();
    const std::span<const std::byte> pages(region.data() + 4096, 8192);
    tx.write_bulk(region, 4096, {&pages, 1});
    tx.modify(region.data(), "count", 5);
    tx.commit();
    write_log(*straight, "bulk");
    write_groups(*straight, "bulk");
  }
  const auto again = disk_with_segments();
  how.disk = again.get();
  rvm::memory memory(log_path, how);
  rvm::region region = memory.map(segment_path);
  change(memory, region, 0, 8, rvm::commit_mode::flush);
  memory.truncate();
  write_log(*again, "truncated");
  change(memory, region, 0, 8, rvm::commit_mode::flush);
  write_log(*again, "truncated_and_used");
  memory.close();
  write_log(*again, "closed");
}

std::vector<std::byte> segment_input(const rvm::segment_header& first, const rvm::segment_header& second,
                                     std::uint16_t pages) {
  std::vector<std::byte> input;
  put(input, 0, pages);
  for (const auto* header : {&first, &second}) {
    const auto bytes = std::as_bytes(std::span{header, 1}).first(512);
    input.insert(input.end(), bytes.begin(), bytes.end());
  }
  return input;
}

void make_segments() {
  const rvm::segment_header plain = plain_segment_header();
  constexpr std::uint16_t pages = (data_offset + segment_length) / 4096;
  write("segment_open", "plain", 3, segment_input(plain, plain, pages));
  write("segment_open", "copied_in", 11, segment_input(plain, plain, pages));
  write("segment_open", "one_header", 1, segment_input(plain, {}, pages));
  write("segment_open", "cut_off", 7, segment_input(plain, plain, pages - 3));
  rvm::segment_header other = plain;
  other.in_log = 1;
  other.log_id = log_identity;
  other.log_path_length = 6;
  std::memcpy(other.log_path.data(), "/d/log", 6);
  other.sequence = 2;
  write("segment_open", "in_log", 3, segment_input(plain, other, pages));
  other = plain;
  other.sequence = 9;
  other.max_length = 1 << 30;
  other.length = 8192;
  other.data_offset = 65536 + (1 << 20);
  write("segment_open", "room_to_grow", 3, segment_input(plain, other, 200));
  auto with_data = segment_input(plain, plain, pages);
  with_data.resize(2 + 1024 + 256);
  put(with_data, with_data.size(), std::uint64_t{0x1234567812345678});
  write("segment_open", "wrong_checksum", 3, with_data);
}

void make_load_maps() {
  const auto disk = disk_with_segments();
  rvm::memory memory(log_path, small(*disk, rvm::open_mode::create));
  const auto store = [&](const std::string& name) {
    memory.truncate();
    auto bytes = disk->current_bytes(segment_path);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(data_offset);
    write("load_map", name, 1, {begin, begin + 4096});
  };
  rvm::loader loaded(memory, segment_path, {.length = 4096, .home = reinterpret_cast<void*>(0x120000000000)});
  store("empty");
  loaded.add("one", 4096);
  store("one");
  loaded.add("two", 8192, reinterpret_cast<void*>(0x130000000000));
  loaded.add("three", 4096);
  store("three");
  write("load_map", "none", 2, {});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  directory = argv[1];
  make_logs();
  make_segments();
  make_load_maps();
  return 0;
}
