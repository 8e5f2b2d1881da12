// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// The file of a prepared transaction, beside its log: PATH.prepared. It has all that the transaction will log, so the log
// itself, truncation, archives and backups need not know of it [rvm.prepared.file].
//
// While a transaction is prepared, nothing else is committed. So the file counts as long as the log ends where it ended when
// the file was written. A commit that makes the log longer is the outcome, and needs no second write [rvm.prepared.resolved].
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tenure/rvm/prepared.hpp>

#include "log/durable_log.hpp"
#include "log/format.hpp"
#include "os/file.hpp"
#include "records/batch.hpp"

namespace tenure::rvm {

inline constexpr std::uint32_t prepared_version = 1;
inline constexpr std::size_t longest_global_id = 255;

// The file's beginning. The global id follows, then the label, then the segments, then the ranges; each padded to 8 bytes.
struct prepared_header {
  std::uint64_t magic;                    //   0  prepared_magic
  std::uint32_t version;                  //   8  prepared_version
  std::uint32_t endian;                   //  12  endian_mark
  identity log_id;                        //  16
  std::uint64_t tail;                     //  32  LSN: where the log ended
  std::uint64_t length;                   //  40  bytes; the file may be longer
  std::int64_t time;                      //  48  ns since 1970, for people
  std::uint64_t ranges;                   //  56
  std::uint32_t segments;                 //  64
  std::uint32_t global_id;                //  68  bytes
  std::uint32_t label;                    //  72  bytes
  std::uint32_t incompatible;             //  76  features that a reader must know
  std::array<std::uint8_t, 44> reserved;  //  80  zero
  std::uint32_t checksum;                 // 124  CRC32C of all `length` bytes, in which it counts as zero
};
static_assert(sizeof(prepared_header) == 128 && offsetof(prepared_header, checksum) == 124);

// The path follows, as records have it.
struct prepared_segment {
  identity id;         //  0  zero if raw
  std::uint32_t raw;   // 16
  std::uint32_t path;  // 20  bytes
};
static_assert(sizeof(prepared_segment) == 24);

// The bytes follow.
struct prepared_range {
  std::uint32_t segment;   //  0  index
  std::uint32_t reserved;  //  4  zero
  std::uint64_t offset;    //  8  in the segment's data
  std::uint64_t length;    // 16
};
static_assert(sizeof(prepared_range) == 24);

// What a file has.
struct prepared_contents {
  struct segment {
    std::string path;  // as records have it
    identity id{};
    bool raw = false;
  };
  struct range {
    std::size_t segment;
    std::uint64_t offset;
    os::const_bytes bytes;  // of `file`
  };
  prepared_transaction what;
  std::vector<segment> segments;
  std::vector<range> ranges;
  std::vector<std::byte> file;
};

// One user at a time: whoever is prepared.
class prepared_file {
 public:
  prepared_file(os::disk& disk, const readable_log& log, unsigned permissions);

  // The bytes of a file, but for the log's end and the checksum. errc::bad_option: the id is too long, or cannot be printed.
  [[nodiscard]] std::vector<std::byte> encode(const commit_image& of, std::string_view global_id) const;
  // The log ends at `tail`, and has all earlier commits durably. Durable on return.
  void write(std::vector<std::byte> bytes, lsn tail);
  // Makes the file of another log, which ends where this one does. Durable on return.
  void copy(const prepared_contents& found, const std::string& log_path, const identity& log_id) const;
  // Durable on return. Does nothing if there is none.
  void remove();
  // Nothing: there is none, or writing it was interrupted, or its outcome is in the log, which ends at `tail`. errc::wrong_log: it
  // is another log's, or the log is older.
  [[nodiscard]] std::optional<prepared_contents> read(lsn tail) const;

 private:
  // Writes them to a file that may be new, or too short.
  void make_ready(std::vector<std::byte>& bytes);

  os::disk& disk_;
  const readable_log& log_;
  const std::string path_;
  const unsigned permissions_;  // those of the log: whoever may read it must see that something is in doubt
  // The file that was written to last, and as much of it as can be overwritten without a change to its metadata. With a file that
  // was opened anew each time, and synced, a transaction over two stores took 2.7 to 5 times as long as a durable commit.
  std::unique_ptr<os::file> file_;
  std::uint64_t ready_ = 0;
};

}  // namespace tenure::rvm
