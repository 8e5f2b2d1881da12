// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A load map of any content, in a segment that is otherwise sound. Byte 0: whether it gets a right checksum; the rest is
// the map's page.
#include <tenure/loader.hpp>

#include "fuzz_support.hpp"

using namespace tenure;
using namespace tenure::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  const std::uint8_t how = in.byte();
  const auto bytes = in.take_bytes(rvm::redo_page);
  std::vector<std::byte> page(bytes.begin(), bytes.end());
  page.resize(rvm::redo_page);
  if (how & 1) {
    constexpr std::size_t checksum_at = 28;
    put(page, checksum_at, std::uint32_t{0});
    put(page, checksum_at, rvm::crc32c(page));
  }
  sim::disk disk;
  install_segments(disk);
  disk.poke(segment_path, data_offset, page);
  rvm::memory memory(log_path, small(disk, rvm::open_mode::create));
  (void)accepted([&] {
    rvm::loader loaded(memory, segment_path, {.length = how & 2 ? std::uint64_t{4096} : 0});
    for (const auto& entry : loaded.entries()) {
      rvm::region& region = loaded[entry.name];
      require(region.data() == entry.address && region.size() == entry.length, "a region is not where it belongs");
      std::byte sum{};
      for (std::size_t at = 0; at < region.size(); at += 512) sum ^= region.data()[at];
    }
    if (accepted([&] { loaded.add("added by the fuzzer", 4096); })) loaded.remove("added by the fuzzer");
    if (const auto entries = loaded.entries(); !entries.empty()) loaded.remove(entries.front().name);
  });
  must("close", [&] { memory.close(); });
  return 0;
}
