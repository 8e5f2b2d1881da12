// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Reading a log of format 1. It is one file: two copies of a status, then a ring of blocks. Groups and records are those
// of today, so whoever reads a log can read it.
//
//     0       status, copy 0      4096 bytes
//     4096    status, copy 1      4096 bytes
//     8192    ring                ring_length bytes: LSN x is stored at 8192 + x mod ring_length
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "log/durable_log.hpp"
#include "log/format.hpp"
#include "log/manifest.hpp"
#include "os/file.hpp"

namespace tenure::upgrading {

using rvm::identity;
using rvm::lsn;

// The log knew of a segment: so far its changes were in the segment's file.
struct segment_mark {
  std::array<std::byte, 8> segment;  // the first bytes of its identity
  std::uint64_t applied;             // LSN
};

struct first_status {
  std::uint64_t magic;                 //    0  rvm::log_magic
  std::uint32_t version;               //    8  1
  std::uint32_t endian;                //   12  rvm::endian_mark
  identity log_id;                     //   16
  std::uint64_t sequence;              //   32  the valid copy with the higher one holds
  std::uint32_t generation;            //   40
  std::uint32_t block_size;            //   44
  std::uint64_t ring_length;           //   48  bytes
  std::uint64_t max_size;              //   56
  std::uint32_t compatible;            //   64
  std::uint32_t read_only_compatible;  //   68
  std::uint32_t incompatible;          //   72
  std::uint32_t clean;                 //   76
  std::uint64_t head;                  //   80
  std::uint64_t tail;                  //   88
  std::int64_t created, written;       //   96, 104
  rvm::total_slots totals;             //  112
  std::uint32_t permissions;           //  624
  std::uint32_t mark_count;            //  628
  std::array<segment_mark, 24> marks;  //  632
  std::uint32_t reserved;              // 1016
  std::uint32_t checksum;              // 1020  of the bytes before
};
static_assert(sizeof(first_status) == 1024 && offsetof(first_status, totals) == 112 &&
              offsetof(first_status, marks) == 632 && offsetof(first_status, checksum) == 1020);

class first_log final : public rvm::readable_log {
 public:
  // Opens it for reading, and locks it: no program of format 1 opens it for writing meanwhile. Throws errc::in_use,
  // errc::not_a_log, errc::damaged; errc::wrong_version if it is of another format.
  first_log(os::disk& disk, std::string path);

  [[nodiscard]] const first_status& status() const { return status_; }
  // The manifest that a log of today would have.
  [[nodiscard]] rvm::manifest as_manifest() const;

  // rvm::readable_log
  [[nodiscard]] const identity& id() const override { return status_.log_id; }
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::uint32_t block() const override { return status_.block_size; }
  [[nodiscard]] lsn end() const override { return status_.head + status_.ring_length; }
  [[nodiscard]] std::string place(lsn at) const override;
  void read(lsn at, os::bytes into) const override;
  void read_ahead(lsn at, std::uint64_t length) const noexcept override;

 private:
  std::string path_;
  std::unique_ptr<os::file> file_;
  first_status status_{};
};

}  // namespace tenure::upgrading
