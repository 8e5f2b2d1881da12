// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// A log of several files with damage in chosen places. Byte 0 says whether it was closed, which checksums are made right again
// (of the manifest, of the files' headers, of groups), and how it is opened. Then changes, each: a byte that says what is done to which file,
// and, to replace bytes, 3 bytes of offset, a byte of length, and the bytes.
#include "fuzz_support.hpp"

#include "records/group.hpp"
#include "support/log_image.hpp"

namespace {

using namespace tenure;
using namespace tenure::fuzz;
using support::log_image;

// Changes that go through all files, of which the oldest were truncated and used again.
std::unique_ptr<sim::disk> make_log(bool is_closed) {
  auto disk = std::make_unique<sim::disk>();
  install_segments(*disk);
  rvm::options how = small(*disk, rvm::open_mode::open_or_create);
  how.tune.truncation_threshold = 2;
  std::unique_ptr<sim::disk> crashed;
  {
    rvm::memory memory(log_path, how);
    rvm::region region = memory.map(segment_path);
    const std::vector<char> value(900, 'v');
    for (std::size_t n = 0; n < 400; ++n) {
      memory.transact([&](rvm::transaction& tx) {
        tx.modify(region.data() + n % 20 * 4096 + n, value.data(), value.size());
        tx.modify(region.data() + n % 7 * 4096, "counted", 7);
      });
      if (n == 150) memory.truncate();
    }
    crashed = disk->crash(0, sim::policy::keep_all);
  }
  return is_closed ? std::move(disk) : std::move(crashed);
}
const sim::disk& sound_log(bool is_closed) {
  static const auto closed = make_log(true), crashed = make_log(false);
  return is_closed ? *closed : *crashed;
}

void correct_manifest(std::vector<std::byte>& bytes) {
  for (const std::uint64_t at : {std::uint64_t{0}, rvm::manifest_copy_size}) {
    rvm::manifest_header h;
    std::memcpy(&h, bytes.data() + at, sizeof h);
    if (h.length < sizeof h || h.length > rvm::manifest_copy_size) continue;
    h.checksum = 0;
    put(bytes, at, h);
    h.checksum = rvm::crc32c(os::const_bytes(bytes).subspan(at, h.length));
    put(bytes, at, h);
  }
}
void correct_header(std::vector<std::byte>& bytes) {
  for (const std::uint64_t at : {std::uint64_t{0}, rvm::log_file_copy_size}) {
    rvm::log_file_header h;
    std::memcpy(&h, bytes.data() + at, sizeof h);
    h.checksum = rvm::header_checksum(h, offsetof(rvm::log_file_header, checksum));
    put(bytes, at, h);
  }
}
void correct_groups(std::vector<std::byte>& bytes) {
  for (std::size_t at = rvm::log_file_data; at + sizeof(rvm::group_header) <= bytes.size(); at += 512) {
    rvm::group_header h;
    std::memcpy(&h, bytes.data() + at, sizeof h);
    if (h.magic != rvm::group_magic || h.length < sizeof h || h.length > bytes.size() - at) continue;
    h.checksum = rvm::crc32c(os::const_bytes(bytes).subspan(at + 8, h.length - 8));
    put(bytes, at, h);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  const std::uint8_t how = in.byte();
  const bool is_closed = (how & 1) != 0;
  const auto disk = sound_log(is_closed).crash(0, sim::policy::keep_all);
  log_image log(*disk, log_path);
  require(log.files.size() >= 4, "the log has too few files for a chain");
  for (int changes = 0; !in.empty() && changes < 32; ++changes) {
    const std::uint8_t what = in.byte();
    const std::size_t number = what / 8 % (log.files.size() + 1);
    std::vector<std::byte>& bytes = number == log.files.size() ? log.manifest : log.files[number].contents;
    switch (what % 8) {
      case 0:  // it lies in another one's place
        if (number < log.files.size()) std::swap(bytes, log.files[in.byte() % log.files.size()].contents);
        break;
      case 1:  // a copy of it does
        if (number < log.files.size()) log.files[in.byte() % log.files.size()].contents = bytes;
        break;
      case 2: bytes.resize(bytes.size() - std::min(bytes.size(), std::size_t{in.byte()} * 512)); break;
      default: {
        const std::uint64_t at = in.take<std::uint16_t>() + std::uint64_t{in.byte()} * 65536;
        const os::const_bytes with = in.take_bytes(in.byte());
        if (at + with.size() <= bytes.size()) std::ranges::copy(with, bytes.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  if ((how & 2) != 0 && log.manifest.size() == 2 * rvm::manifest_copy_size) correct_manifest(log.manifest);
  for (auto& f : log.files) {
    if ((how & 4) != 0 && f.contents.size() >= rvm::log_file_data) correct_header(f.contents);
    if ((how & 8) != 0) correct_groups(f.contents);
  }
  log.install(*disk);

  const std::uint64_t before = disk->operations();
  const bool read_only_opened = accepted([&] {
    rvm::memory memory(log_path, small(*disk, rvm::open_mode::read_only));
    (void)accepted([&] { (void)memory.map(segment_path); });
    memory.close();
  });
  require(disk->operations() == before, "opening for reading changed the disk");
  rvm::options opening = small(*disk);
  opening.give_up_segments = (how & 16) != 0;
  if (!accepted([&] { rvm::memory(log_path, opening).close(); })) return 0;
  require(read_only_opened, "the log opens for writing but not for reading", last_error);
  use_and_reopen(*disk);
  return 0;
}
