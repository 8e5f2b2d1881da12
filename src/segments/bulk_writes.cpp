// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Pages that are written in bulk, straight to the segment, and the notes of them in its header [rvm.bulk.noted].
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "log/checksum.hpp"
#include "os/cleared_memory.hpp"
#include "segments/segment.hpp"

namespace tenure::rvm {

// If there are too many notes, the last ones become one, with the pages between them. Nothing is lost except the proof
// that a page between them is damaged, if it is.
void segment::note_unlogged_bulk() {
  const std::scoped_lock lock(unlogged_bulk_mutex_);
  header_.bulk = {};
  header_.bulk_count = 0;
  for (const bulk_note& each : unlogged_bulk_) {
    if (header_.bulk_count < max_bulk_notes) {
      header_.bulk[header_.bulk_count++] = each;
      continue;
    }
    bulk_note& last = header_.bulk.back();
    const std::uint64_t end = std::max(last.page + last.pages, each.page + each.pages);
    last = {std::min(last.page, each.page), 0, 0, 0, 0};
    last.pages = end - last.page;
  }
}

void segment::note_bulk_logged(std::uint64_t transaction, std::uint32_t generation) noexcept {
  const std::scoped_lock lock(unlogged_bulk_mutex_);
  std::erase_if(unlogged_bulk_,
                [&](const bulk_note& n) { return n.transaction == transaction && n.generation == generation; });
}

void segment::forget_bulk_notes() {
  repair_checksums();
  const std::scoped_lock lock(unlogged_bulk_mutex_);
  unlogged_bulk_.clear();
}

bool segment::is_bulk_unlogged(std::uint64_t page) const {
  const std::scoped_lock lock(unlogged_bulk_mutex_);
  return std::ranges::any_of(unlogged_bulk_, [&](const bulk_note& n) { return page - n.page < n.pages; });
}

namespace {

bool is_zero(os::const_bytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{}; });
}

}  // namespace

// Writes the bytes again, too: after a failed sync, the bytes that were read may be in the page cache only
// [rvm.log.no-retry], and the checksums would outlive them.
void segment::repair_checksums() {
  if (checksums_repaired_) return;
  std::vector<bulk_note> notes;
  {
    const std::scoped_lock lock(unlogged_bulk_mutex_);
    notes = unlogged_bulk_;
  }
  constexpr std::uint64_t at_once = 256;  // pages: 1 MiB
  os::cleared_vector<std::byte> buffer(at_once * redo_page);
  for (const bulk_note& note : notes)
    for (std::uint64_t page = note.page, end = page + note.pages; page < end; page += at_once) {
      const auto bytes = os::bytes(buffer).first(std::min(at_once, end - page) * redo_page);
      read(page * redo_page, bytes);
      std::vector<std::uint64_t> apart;
      for (std::uint64_t n = page; n < page + bytes.size() / redo_page; ++n)
        if (is_marked_damaged(n)) apart.push_back(n);
      // What is cleared by now may have no space, and gets none: the disk may be full.
      const auto is_clear = [&](std::size_t n) {
        return (note.flags & note_cleared) != 0 && is_zero(os::const_bytes(bytes).subspan(n * redo_page, redo_page));
      };
      for (std::size_t n = 0, count = bytes.size() / redo_page, next; n < count; n = next) {
        for (next = n + 1; next < count && is_clear(next) == is_clear(n);) ++next;
        if (is_clear(n))
          clear(page + n, next - n);
        else
          write_pages(page + n, bytes.subspan(n * redo_page, (next - n) * redo_page));
      }
      for (const std::uint64_t n : apart) mark_still_damaged(n);
    }
  if (!checksums_.empty()) finish_writes();
  checksums_repaired_ = true;
}

namespace {

// Cuts a list of pieces into other lengths.
class piece_cursor {
 public:
  explicit piece_cursor(std::span<const os::const_bytes> pieces) : pieces_(pieces) {}
  [[nodiscard]] bool at_end() {
    while (!pieces_.empty() && done_ == pieces_.front().size()) {
      pieces_ = pieces_.subspan(1);
      done_ = 0;
    }
    return pieces_.empty();
  }
  // The next piece, or its first `most` bytes.
  os::const_bytes take(std::size_t most) {
    const os::const_bytes rest = pieces_.front().subspan(done_);
    const auto part = rest.first(std::min(most, rest.size()));
    done_ += part.size();
    return part;
  }

 private:
  std::span<const os::const_bytes> pieces_;
  std::size_t done_ = 0;  // of the first
};

std::vector<std::uint32_t> page_checksums(std::span<const os::const_bytes> pieces) {
  std::vector<std::uint32_t> all;
  std::array<std::byte, redo_page> page;
  for (piece_cursor at(pieces); !at.at_end();) {
    os::const_bytes part = at.take(redo_page);
    if (part.size() < redo_page) {
      std::size_t filled = 0;
      for (;; part = at.take(redo_page - filled)) {
        std::memcpy(page.data() + filled, part.data(), part.size());
        filled += part.size();
        if (filled == redo_page || at.at_end()) break;
      }
      part = page;
    }
    all.push_back(crc32c(part));
  }
  return all;
}

}  // namespace

void segment::write_bulk(const bulk_write& what) {
  constexpr std::size_t at_once = 4 << 20;
  std::uint64_t offset = what.page * redo_page;
  for (piece_cursor pieces(what.from); !pieces.at_end();) {
    const auto [at, most] = layout_.find(offset, at_once);
    std::vector<os::const_bytes> parts;
    std::size_t length = 0;
    for (; length < most && !pieces.at_end(); length += parts.back().size())
      parts.push_back(pieces.take(most - length));
    file_->write_all_at(at, parts);
    file_->write_behind(at, length);
    offset += length;
  }
  for (std::size_t n = 0; n < what.checksums.size(); ++n) set_checksum(what.page + n, what.checksums[n]);
}

void segment::clear(std::uint64_t page, std::uint64_t pages) {
  static const std::vector<std::byte> zeros(1 << 20);
  static const std::uint32_t checksum = crc32c(os::const_bytes(zeros).first(redo_page));
  layout_.for_each_part(page * redo_page, pages * redo_page, [&](const segment_layout::part& part, std::uint64_t) {
    if (file_->punch(part.at, part.length)) return;
    for (std::uint64_t done = 0; done < part.length; done += zeros.size())
      file_->write_at(part.at + done,
                      os::const_bytes(zeros).first(std::min<std::uint64_t>(zeros.size(), part.length - done)));
  });
  for (std::uint64_t n = page; n < page + pages; ++n) set_checksum(n, checksum);
}

void segment::allocate(std::uint64_t offset, std::uint64_t length) {
  layout_.for_each_part(
      offset, length, [&](const segment_layout::part& part, std::uint64_t) { file_->allocate(part.at, part.length); });
  sync();
}

void segment::write_bulk(std::span<bulk_write> writes, std::uint64_t transaction, std::uint32_t generation, lsn tail) {
  repair_checksums();
  for (bulk_write& w : writes) {
    w.checksums = page_checksums(w.from);
    assert(w.is_clearing() || w.checksums.size() == w.pages);
    assert((w.page + w.pages) * redo_page <= round_up(length(), redo_page));
    const std::scoped_lock lock(unlogged_bulk_mutex_);
    unlogged_bulk_.push_back({w.page, w.pages, transaction, generation, w.is_clearing() ? note_cleared : 0});
  }
  if (!raw_) {
    const std::scoped_lock lock(header_mutex_);
    header_.applied = std::max(applied(), tail);
    try {
      write_header();
    } catch (const error& e) {
      throw error(
          errc::outcome_unknown,
          path_ + ": the segment's header could not be written; close this memory and open it again: " + e.what());
    }
  }
  checksums_repaired_ = false;
  try {
    for (const bulk_write& w : writes) {
      if (w.is_clearing())
        clear(w.page, w.pages);
      else
        write_bulk(w);
    }
    finish_writes();
  } catch (const error& e) {
    if (e.code() != errc::outcome_unknown) {
      try {
        repair_checksums();
      } catch (const error&) {  // before the next writing
      }
    }
    throw;
  }
  checksums_repaired_ = true;
}

}  // namespace tenure::rvm
