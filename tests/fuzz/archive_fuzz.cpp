// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Archives whose headers and checksums are right where the input does not want them wrong, so that inputs reach what lies
// behind. The input is a program: frame after frame, each with its stretch of log, index and mistakes.
#include <zstd.h>

#include <memory>

#include "fuzz_support.hpp"
#include "records/archive_cut.hpp"
#include "records/archive_reader.hpp"
#include "records/archive_writer.hpp"

using namespace tenure;
using namespace tenure::fuzz;

namespace {

using image = std::vector<std::byte>;

image compressed(os::const_bytes plain) {
  image out(ZSTD_compressBound(plain.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 1));
  return out;
}

image part_of(byte_source& in, std::uint64_t number) {
  image file(sizeof(rvm::part_header));
  rvm::part_header header{};
  header.magic = rvm::archive_magic;
  header.version = rvm::archive_version;
  header.endian = rvm::endian_mark;
  header.log_id = in.byte() < 250 ? log_identity : segment_identity;
  header.part = number;
  header.checksum = rvm::header_checksum(header, offsetof(rvm::part_header, checksum));
  put(file, 0, header);
  rvm::lsn at = 65536 + 4096 * number;
  while (!in.empty()) {
    const std::uint8_t how = in.byte();
    if (how == 255) break;
    rvm::frame_header frame{};
    frame.magic = rvm::frame_magic;
    frame.part = number;
    frame.offset = file.size();
    frame.block_size = 512;
    frame.transactions = how;
    // A stretch of one group, whose body is the input's.
    image group(sizeof(rvm::group_header));
    const auto body = in.take_bytes(in.byte());
    group.insert(group.end(), body.begin(), body.end());
    rvm::group_header head{};
    head.magic = rvm::group_magic;
    head.log_id = rvm::short_log_id(log_identity);
    head.lsn = at;
    head.batch = at;
    head.length = static_cast<std::uint32_t>(group.size());
    head.records = how & 3;
    head.flags = rvm::group_last;
    put(group, 0, head);
    head.checksum = rvm::crc32c(os::const_bytes(group).subspan(8));
    put(group, 0, head);
    group.resize(rvm::round_up(group.size(), 512));
    frame.from = how & 4 ? at + 512u * in.byte() : at;
    at = frame.from + group.size();
    frame.to = at;
    const auto index = in.take_bytes(in.byte());
    image stored = how & 8 ? image(index.begin(), index.end()) : compressed(index);
    frame.index_plain = static_cast<std::uint32_t>(how & 16 ? in.take<std::uint16_t>() : index.size());
    frame.index_length = static_cast<std::uint32_t>(stored.size());
    frame.index_checksum = rvm::crc32c(stored);
    const image stretch = how & 32 ? image(body.begin(), body.end()) : compressed(group);
    frame.stretch_plain = static_cast<std::uint32_t>(frame.to - frame.from);
    frame.stretch_length = static_cast<std::uint32_t>(stretch.size());
    frame.stretch_checksum = rvm::crc32c(stretch);
    stored.insert(stored.end(), stretch.begin(), stretch.end());
    if (how & 64) {  // a mistake anywhere in the header
      const std::size_t where = in.below(sizeof frame / 4) * 4;
      std::uint32_t word = in.take<std::uint32_t>();
      std::memcpy(reinterpret_cast<std::byte*>(&frame) + where, &word, sizeof word);
    }
    if ((how & 128) == 0) frame.checksum = rvm::crc32c(std::as_bytes(std::span{&frame, 1}).subspan(8));
    put(file, file.size(), frame);
    file.insert(file.end(), stored.begin(), stored.end());
    if (in.byte() != 7) file.resize(rvm::round_up(file.size(), 8));
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  byte_source in(data, size);
  sim::disk disk;
  for (std::uint64_t number = 1; number <= 3 && !in.empty(); ++number) {
    const image file = part_of(in, number);
    disk.install(rvm::part_path("/d/log.archive", number), file);
  }
  const auto look = [&] {
    const rvm::archive_reader archive(disk, "/d/log.archive", log_identity);
    rvm::lsn end = archive.begin();
    for (const auto& gap : archive.gaps()) {
      require(gap.from < gap.to && gap.from >= end && !gap.reason.empty(), "a gap makes no sense", gap.reason);
      end = gap.to;
    }
    for (const auto& frame : archive.frames()) {
      (void)accepted([&] {
        for (const auto& in_segment : archive.index(frame))
          require(in_segment.segment.path.size() < 65536, "a path is too long");
      });
      (void)accepted([&] {
        archive.read(frame, frame.header.from, [&](const rvm::group_view& group, os::const_bytes bytes) {
          require(group.header().lsn >= frame.header.from && group.header().lsn + bytes.size() <= frame.header.to,
                  "a group lies outside of its frame");
          return true;
        });
      });
    }
    return archive.frames().size();
  };
  const std::size_t frames = look();
  rvm::cut_report cut;
  if (accepted([&] { cut = rvm::cut_archive(disk, "/d/log.archive", log_identity, 65536 + 8192); }))
    require(look() + cut.frames == frames, "cutting lost frames");
  return 0;
}
