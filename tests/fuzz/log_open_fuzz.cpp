// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A whole log file of any content. Byte 0 says how it is opened; the rest is the file.
#include "fuzz_support.hpp"

namespace {

using namespace tenure;
using namespace tenure::fuzz;

// Gives a status block a right checksum.
void correct(std::vector<std::byte>& file, std::size_t at) {
  if (file.size() < at + sizeof(rvm::status_block)) return;
  rvm::status_block s;
  std::memcpy(&s, file.data() + at, sizeof s);
  s.checksum = rvm::header_checksum(s, offsetof(rvm::status_block, checksum));
  put(file, at, s);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  const std::uint8_t how = in.byte();
  const auto bytes = in.take_bytes(in.left());
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  // Zeros up to the size of the smallest log, so that inputs are small.
  if (how & 1) file.resize(std::max<std::size_t>(file.size(), rvm::log_area_offset + rvm::min_log_area));
  if (how & 2) correct(file, 0);
  if (how & 4) correct(file, rvm::status_copy_size);

  // Its segments must know that it has changes for them.
  rvm::status_block status{};
  if (!file.empty()) std::memcpy(&status, file.data(), std::min(file.size(), sizeof status));
  sim::disk disk;
  install_segments(disk, &status.log_id);
  disk.install(log_path, file);
  const bool read_only_opened = accepted([&] {
    rvm::memory memory(log_path, small(disk, rvm::open_mode::read_only));
    for (const bool raw : {false, true})
      (void)accepted([&] { (void)memory.map(raw ? raw_path : segment_path, {.raw = raw}); });
    memory.close();
  });
  require(disk.operations() == 0, "opening for reading changed the disk");
  rvm::options opening = small(disk);
  opening.give_up_segments = (how & 8) != 0;
  if (!accepted([&] { rvm::memory(log_path, opening).close(); })) return 0;
  require(read_only_opened, "the log opens for writing but not for reading");
  use_and_reopen(disk);
  return 0;
}
