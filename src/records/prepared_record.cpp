// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/prepared_record.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <tenure/error.hpp>

#include "log/checksum.hpp"

namespace tenure::rvm {

namespace {

group_header header_of(const readable_log& log, lsn group) {
  std::vector<std::byte> block(log.block());
  log.read(group, block);
  group_header header;
  std::memcpy(&header, block.data(), sizeof header);
  return header;
}

// Ranges that follow each other are one: the log cuts them at the borders of pages.
void count_changes(const prepared_contents& in, prepared_transaction& into) {
  std::string segment;
  std::uint64_t end = 0;
  for (const group_view& group : in.groups)
    for (const transaction_view& tx : group.prepared())
      for (const range_view& range : tx.ranges) {
        const std::string& path = group.segments()[range.segment].path;
        into.ranges += into.ranges == 0 || path != segment || range.offset != end ? 1 : 0;
        into.bytes += range.value.size();
        segment = path;
        end = range.offset + range.value.size();
      }
}

}  // namespace

void require_global_id(std::string_view id) {
  if (id.empty() || id.size() > longest_global_id ||
      std::ranges::any_of(id, [](char c) { return (c >= 0 && c < ' ') || c == 127; }))
    throw error(errc::bad_option, "the global id of a prepared transaction has " + std::to_string(id.size()) +
                                      " bytes, or one that cannot be printed; give 1 to " +
                                      std::to_string(longest_global_id) + " printable ones");
}

std::optional<prepared_contents> find_prepared(const readable_log& log, const log_part& live) {
  if (live.length() == 0 || (header_of(log, live.last_group).flags & group_prepared) == 0) return std::nullopt;
  prepared_contents found;
  found.from = live.to;
  read_backwards(log, live, [&](const group_view& group) {
    if (!group.is_prepared()) return false;
    found.from = group.header().lsn;
    return group.global_id().empty();  // others may be before it, whose outcome is known
  });
  scan_groups(log, found.from, live.to, [&](const group_header& header, os::const_bytes bytes) {
    auto& kept = found.bytes.emplace_back(bytes.begin(), bytes.end());
    found.groups.emplace_back(kept, header, place_of(log, header.lsn));
    return true;
  });
  if (found.groups.empty() || found.groups.front().global_id().empty() || found.groups.front().prepared().empty())
    throw error(errc::damaged, place_of(log, found.from) +
                                   " is of a prepared transaction, whose beginning is missing: the log was written by "
                                   "a faulty program; restore log and segments from a backup");
  const transaction_view& first = found.groups.front().prepared().front();
  found.what.global_id = found.groups.front().global_id();
  found.what.label = first.label;
  found.what.time = first.time;
  count_changes(found, found.what);
  return found;
}

std::vector<std::vector<std::byte>> moved_to(const log_stamp& log, lsn tail, const prepared_contents& what) {
  std::vector<std::vector<std::byte>> moved = what.bytes;
  lsn at = tail;
  std::uint32_t previous = 0;
  for (std::vector<std::byte>& bytes : moved) {
    group_header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    header.log_id = short_log_id(log.log_id);
    header.lsn = at;
    header.batch = header.synced_through = tail;
    header.previous = previous;
    header.generation = log.generation;
    std::memcpy(bytes.data(), &header, sizeof header);
    constexpr auto covered_from = offsetof(group_header, log_id);
    header.checksum = crc32c(os::const_bytes(bytes).subspan(covered_from));
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.resize(round_up(bytes.size(), log.block_size));
    previous = static_cast<std::uint32_t>(bytes.size());
    at += previous;
  }
  return moved;
}

}  // namespace tenure::rvm
