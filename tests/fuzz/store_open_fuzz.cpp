// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A store of two databases with damage in chosen places. Byte 0: whether the databases' headers get right checksums, and
// whether the store is opened for reading only. Then changes, each: a byte that says where (its lowest bit: which database; the
// others: header, zone kinds, block entries, start bits, objects, anywhere), 3 bytes of offset there, a byte of length, and
// the bytes, which replace what is there. What opens is looked at as programs and tools do.
#include "fuzz_support.hpp"

#include "objects/format.hpp"
#include "objects/object_walk.hpp"
#include "store/store_state.hpp"
#include "support/small_image.hpp"

using namespace tenure;
using namespace tenure::fuzz;
using namespace tenure::support;

namespace {

constexpr std::uint64_t home = 0x550000000000;

const sim::disk& sound_store() {
  static sim::disk disk;
  static const bool made = (make_image(disk, home), true);
  (void)made;
  return disk;
}

std::uint64_t place_of(std::uint8_t kind, std::uint64_t offset) {
  using namespace heap;
  switch (kind % 6) {
    case 0: return offset % sizeof(database_header);
    case 1: return zone_kinds_at + offset % 16;
    case 2: {  // its entry and typed pages
      constexpr std::uint64_t length = offsetof(block_record, freed_at);
      return record_offset(bookkeeping_blocks + offset / length % 16) + offset % length;
    }
    case 3:
      return record_offset(bookkeeping_blocks + offset / sizeof(start_bits) % 16) + offsetof(block_record, starts) +
             offset % sizeof(start_bits);
    case 4: return bookkeeping_size + offset % (16 * block_size);
    default: return offset % (bookkeeping_size + 32 * block_size);
  }
}

void damage(sim::disk& disk, byte_source& in, bool with_checksums) {
  const std::string files[] = {std::string(image_path) + "/main.db", std::string(image_path) + "/more.db"};
  std::uint64_t data_at[2];
  std::vector<std::byte> bytes[2];
  for (int n = 0; n < 2; ++n) {
    bytes[n] = disk.current_bytes(files[n]);
    rvm::segment_header header;
    std::memcpy(&header, bytes[n].data(), sizeof header);
    data_at[n] = header.data_offset;
  }
  for (int changes = 0; !in.empty() && changes < 64; ++changes) {
    const std::uint8_t where = in.byte();
    const int which = where % 2;
    const std::uint64_t offset = in.take<std::uint16_t>() + std::uint64_t{in.byte()} * 65536;
    const std::uint64_t at = data_at[which] + place_of(where / 2, offset);
    const auto change = in.take_bytes(in.byte());
    if (at + change.size() <= bytes[which].size()) disk.poke(files[which], at, change);
  }
  if (!with_checksums) return;
  for (int n = 0; n < 2; ++n) {
    heap::database_header header;
    std::memcpy(&header, disk.current_bytes(files[n]).data() + data_at[n], sizeof header);
    header.checksum =
        rvm::crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(heap::database_header, checksum)));
    disk.poke(files[n], data_at[n], std::as_bytes(std::span(&header, 1)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  const std::uint8_t how = in.byte();
  const auto disk = sound_store().crash(1, sim::policy::keep_all);
  damage(*disk, in, (how & 1) != 0);
  store_options options = image_options(*disk, home);
  if (how & 2) options.mode = rvm::open_mode::read_only;
  accepted([&] {
    const store s(image_path, options);
    for (const std::string& line : s.verify()) require(line.size() > 10, "the verifier says nothing");
    accepted([&] { (void)s.find_root<image_types::catalog>("catalog"); });
    for (const database& d : s.databases()) accepted([&] { (void)d.find_root<image_types::part>("first"); });
    (void)s.root_names();
    (void)s.stats();
  });
  // As tools do, which follow all paths.
  accepted([&] {
    options.mode = rvm::open_mode::read_only;
    const store_state state(image_path, options);
    heap::reachable_objects all(*state.databases);
    all.search();
    for (const heap::address object : all.in_order()) require(!all.path(object).empty(), "an object without a path");
  });
  return 0;
}
