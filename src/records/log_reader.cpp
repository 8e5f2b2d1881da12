// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "records/log_reader.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "os/cleared_memory.hpp"

namespace tenure::rvm {

namespace {

constexpr std::size_t read_size = 4 << 20;

// Looks for intact groups by LSN. It keeps what it read last, because consecutive questions are about neighbouring
// bytes.
class prober {
 public:
  // `at_once`: what it reads, at least, if it is asked for bytes that it does not have.
  explicit prober(const readable_log& log, std::size_t at_once = read_size)
      : log_(log), at_once_(at_once), id_(short_log_id(log.id())) {}

  // The intact group that starts exactly at this LSN.
  std::optional<group_header> group_at(lsn at, lsn limit) {
    group_header header;
    if (!read_group_header(view(at, log_.block(), limit), {id_, at, log_.block()}, header)) return std::nullopt;
    if (at + padded_length(header, log_.block()) > limit) return std::nullopt;
    if (!group_intact(view(at, header.length, limit), header)) return std::nullopt;
    return header;
  }
  // The first intact group that starts in [from, until).
  std::optional<group_header> first_group(lsn from, lsn until, lsn limit) {
    for (lsn at = from; at < until; at += log_.block())
      if (auto header = group_at(at, limit)) return header;
    return std::nullopt;
  }
  // The bytes of a group that was found before.
  os::const_bytes bytes_of(const group_header& group, lsn limit) { return view(group.lsn, group.length, limit); }

 private:
  os::const_bytes view(lsn at, std::size_t length, lsn limit) {
    length = static_cast<std::size_t>(std::min<std::uint64_t>(length, limit - at));
    if (at < start_ || at + length > start_ + buffer_.size()) {
      buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(std::max(length, at_once_), limit - at)));
      start_ = at;
      log_.read(at, buffer_);
    }
    return os::const_bytes(buffer_).subspan(static_cast<std::size_t>(at - start_), length);
  }

  const readable_log& log_;
  const std::size_t at_once_;
  std::uint64_t id_;
  os::cleared_vector<std::byte> buffer_;
  lsn start_ = 0;
};

[[noreturn]] void damaged(const readable_log& log, lsn at, const std::string& proof) {
  throw error(errc::damaged, place_of(log, at) + " is damaged: " + proof +
                                 "; restore log and segments from a backup, of one moment; or go on without this group "
                                 "and what was committed after it: `tenure log cut --at " +
                                 std::to_string(at) + " " + log.path() + "` says what that is");
}

// Before the first group of an opening is written, the manifest has its generation.
void require_newest(const readable_log& log, const manifest& status, const group_header& found) {
  if (found.generation <= status.generation) return;
  throw error(errc::wrong_log, log.path() + ": is an older copy of the log's manifest: it knows of " +
                                   std::to_string(status.generation) +
                                   " openings for writing, and the log's files of " + std::to_string(found.generation) +
                                   "; put files of the same moment in place, or restore log and segments from a "
                                   "backup, of one moment");
}

}  // namespace

void require_newest(const readable_log& log, const manifest& status) {
  if (status.tail >= log.end()) return;
  prober probe(log, log.block());  // every opening does this, and mostly there is nothing
  if (const auto group = probe.group_at(status.tail, log.end())) require_newest(log, status, *group);
}

std::string place_of(const readable_log& log, lsn at) {
  return log.path() + ": the log's group at LSN " + std::to_string(at) + " (" + log.place(at) + ")";
}

log_tail find_tail(const readable_log& log, const manifest& status, const progress_callback& progress) {
  const lsn head = status.head, limit = log.end();
  prober probe(log);

  // Finds some group far behind. Every group before the last batch is durable, so "is there a group after x" is true up
  // to there. Damage can mislead the search, which then ends too early; the look behind the tail below would notice.
  lsn known = head, beyond = limit;
  while (beyond - known > 2 * std::uint64_t{max_group}) {
    const lsn middle = round_down(known + (beyond - known) / 2, log.block());
    if (auto found = probe.first_group(middle, std::min(middle + max_group + log.block(), beyond), limit))
      known = found->lsn;
    else
      beyond = middle;
  }

  // Walks from the start of that group's batch, batch by batch [rvm.log.batch].
  log_tail result;
  if (auto start = probe.group_at(known, limit)) known = std::max(start->batch, head);
  result.tail = result.last_batch = known;
  lsn at = known, begin = known, batch = known, previous_group = 0;
  // The head is in the middle of a batch if a transaction is prepared there. What the manifest knows to be durable is no
  // remainder of a torn batch.
  if (at == head && head < status.tail)
    if (const auto first = probe.group_at(at, limit)) batch = first->batch;
  std::uint32_t generation = 0;
  std::uint64_t pending = 0;
  while (at < limit) {
    const auto group = probe.group_at(at, limit);
    if (!group || group->batch != batch || (at != begin && group->generation != generation)) break;
    require_newest(log, status, *group);
    generation = group->generation;
    previous_group = at;
    at += padded_length(*group, log.block());
    ++pending;
    if (group->flags & group_last) {
      result.last_batch = begin;
      result.tail = begin = batch = at;
      result.last_group = previous_group;
      pending = 0;
    }
  }
  if (result.tail == known && known != head) {
    // The binary search found a group of a batch that is not whole. Walks to the groups before it.
    if (auto header = probe.group_at(known, limit)) {
      result.last_group = known - header->previous;
    } else {
      // Only a later group of the torn batch survived. Nothing leads from it to the group before the tail, so the walk
      // goes from the head, part by part.
      lsn walk = known > head + 2 * std::uint64_t{max_group} ? known - 2 * std::uint64_t{max_group} : head;
      std::optional<group_header> last;
      while (auto group = probe.first_group(walk, known, limit)) {
        last = group;
        walk = group->lsn + padded_length(*group, log.block());
      }
      if (!last || walk != known)
        damaged(log, walk, "a later group of the log, at LSN " + std::to_string(known) + ", is intact");
      result.last_group = last->lsn;
    }
  }

  // Looks behind the tail. A group of a later batch was written only after everything before it was durable.
  for (lsn from = result.tail; from < limit;) {
    if (progress) progress({"looking behind the log's tail", from - result.tail, limit - result.tail});
    const lsn until = std::min<lsn>(from + read_size, limit);
    while (auto group = probe.first_group(from, until, limit)) {
      if (group->batch > result.tail && group->synced_through > result.tail)
        damaged(log, result.tail,
                "a later group of the log, at LSN " + std::to_string(group->lsn) +
                    ", is intact and was written when the log was durable up to LSN " +
                    std::to_string(group->synced_through));
      // Groups of batches that were torn in earlier generations stay until they are overwritten. They do not count.
      if (group->batch == result.tail && group->generation == status.generation) {
        ++result.torn_groups;
        result.torn_bytes += group->length;
      }
      from = group->lsn + padded_length(*group, log.block());
    }
    from = std::max(from, until);
  }
  if (result.tail < status.tail)
    damaged(log, result.tail, "the manifest says that the log was durable up to LSN " + std::to_string(status.tail));
  return result;
}

lsn find_group_before(const readable_log& log, lsn from, lsn end) {
  prober probe(log);
  lsn at = round_down(std::max(from, end > max_group ? end - max_group : 0), log.block());
  while (const auto group = probe.first_group(at, end, end)) {
    at = group->lsn + padded_length(*group, log.block());
    if (at == end) return group->lsn;
  }
  damaged(log, end, "it does not lead to the group before it");
}

void read_backwards(const readable_log& log, const log_part& part,
                    const std::function<bool(const group_view&)>& visit) {
  const lsn from = part.from, to = part.to;
  const std::uint64_t id = short_log_id(log.id());
  // `buffer` holds [start, end). If a group begins before `start`, its end is kept when the part before it is read.
  // Both buffers are allocated once, because new memory costs a page fault for every page.
  os::cleared_vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(read_size, to - from)));
  os::cleared_vector<std::byte> more(buffer.size());
  lsn start = to, at = part.last_group, end = to;
  while (end > from) {
    if (at < from || at >= end || end - at > max_group) damaged(log, from, "the groups behind it do not lead to it");
    if (at < start) {
      const lsn read_from = std::max(from, end > read_size ? end - read_size : 0);
      log.read(read_from, os::bytes(more).first(static_cast<std::size_t>(start - read_from)));
      if (end > start)
        std::memcpy(more.data() + (start - read_from), buffer.data(), static_cast<std::size_t>(end - start));
      buffer.swap(more);
      start = read_from;
      // Kernels do not expect that a file is read backwards.
      const lsn next = start - std::min<std::uint64_t>(read_size, start - from);
      log.read_ahead(next, start - next);
    }
    const auto bytes =
        os::const_bytes(buffer).subspan(static_cast<std::size_t>(at - start), static_cast<std::size_t>(end - at));
    group_header header;
    if (!read_group_header(bytes, {id, at, log.block()}, header))
      damaged(log, at, "its header is not that of a group with this LSN");
    if (padded_length(header, log.block()) != end - at) damaged(log, at, "its length does not lead to the next group");
    if (!group_intact(bytes, header)) damaged(log, at, "its checksum does not match");
    if (!visit(group_view(bytes, header, place_of(log, at)))) return;
    end = at;
    // The first group of an opening does not know the group before it.
    if (end > from) at = header.previous != 0 ? at - header.previous : find_group_before(log, from, end);
  }
}

std::optional<group_start> find_group(const readable_log& log, lsn at, lsn to) {
  prober probe(log);
  const auto group = probe.first_group(at, to, to);
  if (!group) return std::nullopt;
  return group_start{group->lsn, group->lsn - group->previous};
}

void scan_groups(const readable_log& log, lsn from, lsn to,
                 const std::function<bool(const group_header&, os::const_bytes)>& visit) {
  prober probe(log);
  for (lsn at = from; at < to;) {
    const auto group = probe.first_group(at, to, to);
    if (!group || !visit(*group, probe.bytes_of(*group, to))) return;
    at = group->lsn + padded_length(*group, log.block());
  }
}

}  // namespace tenure::rvm
