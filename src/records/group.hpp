// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Groups in memory: checks a group, and walks over its records and ranges. Every byte from the disk is checked before
// it is used. Parsing damaged bytes throws errc::damaged and never crashes [rvm.group.checked].
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "os/file.hpp"
#include "records/format.hpp"
#include "segments/segment_name.hpp"

namespace tenure::rvm {

// What tells a group of one log at one place from all others.
struct group_expectation {
  std::uint64_t log_id;  // first 8 bytes of the identity
  std::uint64_t lsn;
  std::uint32_t block;
};

[[nodiscard]] std::uint64_t short_log_id(const identity& id) noexcept;

// Reads the header at the front of `bytes`. Returns true if it is a header of this log for this LSN, with a sensible
// length. Does not read the body.
[[nodiscard]] bool read_group_header(os::const_bytes bytes, const group_expectation& expected,
                                     group_header& header) noexcept;
// Whether the group matches its checksum. `bytes` has at least header.length bytes.
[[nodiscard]] bool group_intact(os::const_bytes bytes, const group_header& header) noexcept;
// The length on disk, padding included.
[[nodiscard]] inline std::uint32_t padded_length(const group_header& header, std::uint32_t block) noexcept {
  return static_cast<std::uint32_t>(round_up(header.length, block));
}

struct range_view {
  std::uint32_t segment;  // index into group_view::segments
  std::uint64_t offset;   // in the segment's data
  os::const_bytes value;
};

struct bulk_run_view {
  std::uint32_t segment;  // index into group_view::segments
  std::uint64_t offset;   // in the segment's data; whole pages
  std::uint64_t pages;
  os::const_bytes checksums;  // CRC32C, 4 bytes a page; none if the pages were cleared
  [[nodiscard]] bool is_cleared() const { return checksums.empty(); }
  [[nodiscard]] std::uint64_t length() const { return pages * redo_page; }
  [[nodiscard]] std::uint32_t checksum(std::uint64_t page) const {
    std::uint32_t value;
    std::memcpy(&value, checksums.data() + page * sizeof value, sizeof value);
    return value;
  }
};

// A record of a transaction, with ranges or with bulk runs.
struct transaction_view {
  std::uint64_t id;
  std::int64_t time;
  std::uint16_t flags;  // record_first, record_last, record_lazy
  std::string_view label;
  std::vector<range_view> ranges;
  std::vector<bulk_run_view> runs;
  std::uint32_t at = 0;  // offset of the record in its group
};

// The parsed contents of a group whose checksum has been verified. It refers to the bytes it was made from.
class group_view {
 public:
  // `place` names the group in messages. Throws errc::damaged.
  group_view(os::const_bytes bytes, const group_header& header, const std::string& place);

  [[nodiscard]] const group_header& header() const { return header_; }
  [[nodiscard]] const std::vector<segment_name>& segments() const { return segments_; }
  // Bytes that each of them had at least; 0: not known.
  [[nodiscard]] const std::vector<std::uint64_t>& lengths() const { return lengths_; }
  // In the order of the commits. None if the group is of a prepared transaction.
  [[nodiscard]] const std::vector<transaction_view>& transactions() const { return transactions_; }
  [[nodiscard]] bool is_prepared() const { return (header_.flags & group_prepared) != 0; }
  // What the prepared transaction would change, if the group is of one.
  [[nodiscard]] const std::vector<transaction_view>& prepared() const { return prepared_; }
  // Empty, unless it is the first group of a prepared transaction.
  [[nodiscard]] std::string_view global_id() const { return global_id_; }
  // Forgets all transactions but so many of the first ones.
  void keep_first(std::size_t transactions) { transactions_.resize(transactions); }

 private:
  group_header header_;
  std::vector<segment_name> segments_;
  std::vector<std::uint64_t> lengths_;
  std::vector<transaction_view> transactions_, prepared_;
  std::string_view global_id_;
};

}  // namespace tenure::rvm
