// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The files of a log, of any content. Byte 0 says how they are opened, the next two how long the manifest is; the rest is
// the log's first file.
#include "fuzz_support.hpp"

namespace {

using namespace tenure;
using namespace tenure::fuzz;

// Gives a manifest a right checksum.
void correct_manifest(std::vector<std::byte>& bytes) {
  rvm::manifest_header h;
  if (bytes.size() < sizeof h) return;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.length < sizeof h || h.length > bytes.size()) return;
  h.checksum = 0;
  put(bytes, 0, h);
  h.checksum = rvm::crc32c(os::const_bytes(bytes).first(h.length));
  put(bytes, 0, h);
}

void correct_file(std::vector<std::byte>& bytes, std::size_t at) {
  rvm::log_file_header h;
  if (bytes.size() < at + sizeof h) return;
  std::memcpy(&h, bytes.data() + at, sizeof h);
  h.checksum = rvm::header_checksum(h, offsetof(rvm::log_file_header, checksum));
  put(bytes, at, h);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  const std::uint8_t how = in.byte();
  const auto begin = in.take_bytes(in.take<std::uint16_t>());
  std::vector<std::byte> manifest(begin.begin(), begin.end());
  if (how & 2) correct_manifest(manifest);
  rvm::manifest_header status{};
  if (!manifest.empty()) std::memcpy(&status, manifest.data(), std::min(manifest.size(), sizeof status));
  manifest.resize(rvm::manifest_copy_size);
  if (how & 4) manifest.insert(manifest.end(), manifest.begin(), manifest.end());
  // Zeros up to the right size, so that inputs are small.
  if (how & 1) manifest.resize(2 * rvm::manifest_copy_size);

  const auto rest = in.take_bytes(in.left());
  std::vector<std::byte> file(rest.begin(), rest.end());
  if (how & 1) file.resize(std::max<std::size_t>(file.size(), rvm::log_file_data + rvm::min_log_file));
  if (how & 16)
    for (const std::size_t copy : {std::uint64_t{0}, rvm::log_file_copy_size}) correct_file(file, copy);

  // Its segments must know that it has changes for them.
  sim::disk disk;
  install_segments(disk, &status.log_id);
  disk.install(log_path, manifest);
  disk.install(std::string(log_path) + ".1", file);
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
