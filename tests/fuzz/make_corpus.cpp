// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Writes first inputs for the fuzzers, made by the library itself: make_corpus DIRECTORY. Needed again only when a format
// changes. (log_body and workload, whose inputs are programs, need no such help.)
#include <filesystem>
#include <fstream>

#include <tenure/loader.hpp>

#include "fuzz_support.hpp"
#include "store/store_state.hpp"
#include "support/log_image.hpp"
#include "support/small_image.hpp"

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
  const support::log_image log(disk, log_path);
  rvm::manifest status = log.read_manifest();
  std::vector<std::byte> bytes(2);
  put(bytes, 0, static_cast<std::uint16_t>(status.length));
  const std::vector<std::byte> manifest = rvm::encode(status);
  bytes.insert(bytes.end(), manifest.begin(), manifest.end());
  bytes.insert(bytes.end(), log.files.front().contents.begin(), log.files.front().contents.end());
  write("log_open", name, 1 | 4, bytes);
}

// The groups of a log, each as the parser gets it: without its header.
void write_groups(const sim::disk& disk, const std::string& name) {
  const auto bytes = disk.current_bytes(std::string(log_path) + ".1");
  int number = 0;
  for (std::size_t at = rvm::log_file_data; at + sizeof(rvm::group_header) <= bytes.size(); at += 512) {
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

// Changes as store_open_fuzz.cpp takes them.
class store_changes {
 public:
  store_changes& change(std::uint8_t kind, std::uint8_t which, std::uint32_t offset, std::vector<std::uint8_t> with) {
    const auto add = [&](std::uint64_t value, int count) {
      for (int n = 0; n < count; ++n) bytes_.push_back(static_cast<std::byte>(value >> (8 * n)));
    };
    add(kind * 2u + which, 1);
    add(offset, 3);
    add(with.size(), 1);
    for (const std::uint8_t b : with) add(b, 1);
    return *this;
  }
  // Where an object's bytes are, from the end of the bookkeeping.
  store_changes& change_object(const void* at, std::vector<std::uint8_t> with) {
    return change(4, 0, static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at) - first_object_),
                  std::move(with));
  }
  void store_as(const std::string& name, std::uint8_t how = 0) {
    bytes_.push_back(std::byte{1});  // write() takes zeros off the end
    write("store_open", name, how, std::exchange(bytes_, {}));
  }
  explicit store_changes(std::uint64_t home) : first_object_(home + heap::bookkeeping_size) {}

 private:
  std::uint64_t first_object_;
  std::vector<std::byte> bytes_;
};

void make_stores() {
  using namespace heap;
  sim::disk disk;
  constexpr std::uint64_t home = 0x550000000000;
  support::make_image(disk, home);
  store_options how = support::image_options(disk, home);
  how.mode = rvm::open_mode::read_only;
  const store_state state(support::image_path, how);
  const database_state& main = state.databases->front();
  store_changes c(main.home);
  const auto at = [](std::size_t offset) { return static_cast<std::uint32_t>(offset); };
  c.store_as("sound");
  c.store_as("sound_read_only", 2);
  c.change(0, 0, at(offsetof(database_header, home)), {1}).store_as("other_home", 1);
  c.change(0, 0, at(offsetof(database_header, incompatible)), {1}).store_as("features", 1);
  c.change(0, 0, at(offsetof(database_header, blocks_end)), {0xff, 0xff}).store_as("blocks_end");
  c.change(0, 0, at(offsetof(database_header, types)), {8})
      .change(0, 1, at(offsetof(database_header, roots)), {0, 0, 0, 0, 0, 0});
  c.store_as("tables");
  c.change(1, 0, 0, {2, 1}).store_as("zone_kinds");
  constexpr std::uint32_t entry_and_pages = offsetof(block_record, freed_at);
  c.change(2, 0, 0, {3, 0, 0, 0, 2}).change(2, 0, entry_and_pages, {4, 0, 0, 0, 9});
  c.store_as("block_entries");
  for (std::uint64_t b = bookkeeping_blocks; b < bookkeeping_blocks + 16; ++b) {
    if (main.map->entry(b).kind != block_kind::typed) continue;
    const auto pages = static_cast<std::uint32_t>((b - bookkeeping_blocks) * entry_and_pages + sizeof(block_entry));
    c.change(2, 0, pages, {0, 0, 0, 0}).store_as("typed_page_without_type");
    c.change(2, 0, pages + 3, {0x3f}).store_as("typed_page_of_other_size");
    c.change(2, 0, pages, {0xff, 0xff}).store_as("typed_page_of_unknown_type");
    break;
  }
  c.change(3, 0, 0, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}).store_as("start_bits");
  const heap::type_table& types = main.type_table();
  c.change_object(&types.count, {0xff, 0xff}).store_as("type_count");
  const stored_type* const last = types.types[types.count - 1];
  c.change_object(&last->size, {1}).store_as("type_size");
  c.change_object(&last->flags, {3}).store_as("type_flags");
  c.change_object(&last->name, {0, 0}).store_as("type_name");
  c.change_object(&last->field_count, {200}).store_as("field_count");
  for (std::uint64_t n = 1; n < types.count; ++n) {
    const stored_type* const t = types.types[n];
    if (t == nullptr) continue;
    if (t->slots != 0) c.change_object(&t->slots, {7}).store_as("vtable_slots");
    for (std::uint64_t f = 0; f < t->field_count; ++f) {
      const stored_field& field = t->fields[f];
      if (field.guard_width != 0) c.change_object(&field.guard_offset, {250}).store_as("guard");
      if (static_cast<field_kind>(field.kind) == field_kind::nested) c.change_object(&field.of, {2}).store_as("nested");
      if (field.count > 10) c.change_object(&field.count, {1, 0, 0, 1}).store_as("field_array");
    }
  }
  const root_entry& root = main.root_table().entries[0];
  c.change_object(&root.object, {0x10, 0, 1}).store_as("root");
  c.change_object(static_cast<const char*>(root.object) - 8, {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
      .store_as("huge_object");
  c.change_object(static_cast<const char*>(root.object) - 4, {7}).store_as("object_size");
  c.change_object(root.object, {0, 0, 0, 0, 0, 0x40}).store_as("stray_pointer");
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
  make_stores();
  return 0;
}
