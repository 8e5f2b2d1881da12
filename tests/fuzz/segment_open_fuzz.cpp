// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A segment file of any content. Byte 0: which headers get a right checksum; then the file's length in units of 4 KiB (2
// bytes); the first 512 bytes of each header copy; the checksum table (256 bytes); then data.
#include "fuzz_support.hpp"

using namespace tenure;
using namespace tenure::fuzz;

namespace {

constexpr std::size_t header_part = 512, table_part = 256;

void place(std::vector<std::byte>& file, std::size_t at, os::const_bytes bytes) {
  if (at >= file.size()) return;
  bytes = bytes.first(std::min(bytes.size(), file.size() - at));
  std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  const std::uint8_t how = in.byte();
  std::vector<std::byte> file(in.take<std::uint16_t>() % 256 * std::size_t{4096} + (how & 4 ? 100 : 0));
  for (const std::size_t copy : {0, 1}) {
    std::vector<std::byte> header(sizeof(rvm::segment_header));
    place(header, 0, in.take_bytes(header_part));
    if (how & (copy + 1)) {
      rvm::segment_header h;
      std::memcpy(&h, header.data(), sizeof h);
      h.checksum = rvm::header_checksum(h, offsetof(rvm::segment_header, checksum));
      put(header, 0, h);
    }
    place(file, copy * 4096, header);
  }
  place(file, rvm::segment_checksums_offset, in.take_bytes(table_part));
  place(file, data_offset, in.take_bytes(in.left()));

  sim::disk disk;
  install_segments(disk);
  disk.install(segment_path, file);
  rvm::memory memory(log_path, small(disk, rvm::open_mode::create));
  (void)accepted([&] { (void)memory.segment_length(segment_path); });
  bool was_damaged = false;
  (void)accepted([&] {
    const auto bad = memory.verify_segment(segment_path);
    was_damaged = std::ranges::find(bad, 0u) != bad.end();
  });
  // Every byte of the map must be there: no SIGBUS.
  rvm::region region;
  if (!accepted([&] { region = memory.map(segment_path, {.copy_in = (how & 8) != 0}); })) return 0;
  std::byte sum{};
  for (std::size_t at = 0; at < region.size(); at += 512) sum ^= region.data()[at];
  must("a segment that can be mapped can be changed",
       [&] { memory.transact([&](auto& tx) { tx.modify(region.data() + 10, "changed", 7); }); });
  must("and unmapped", [&] { region.unmap(); });
  must("and mapped again", [&] {
    region = memory.map(segment_path);
    require(std::memcmp(region.data() + 10, "changed", 7) == 0, "a commit was lost");
    const auto bad = memory.verify_segment(segment_path);
    const bool is_damaged = std::ranges::find(bad, 0u) != bad.end();
    require(is_damaged == was_damaged, "part of a page was written, and its damage has come or gone");
    memory.close();
  });
  return 0;
}
