// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "replay/redo.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "log/checksum.hpp"
#include "os/cleared_memory.hpp"
#include "records/log_reader.hpp"

namespace tenure::rvm {

void redo::restrict_to(segment& in, std::uint64_t page) {
  restricted_ = false;
  (void)node_of({number_of(in), page});
  restricted_ = true;
}

std::uint32_t redo::node_of(page_key key) {
  if (restricted_) return index_.find(key);
  const std::uint32_t at = index_.find_or_insert(key, static_cast<std::uint32_t>(nodes_.size()));
  if (at == nodes_.size()) {
    nodes_.push_back({key});
    const auto masks = masked_.find(segments_[key.segment]);
    nodes_.back().masked = masks != masked_.end() && masks->second.contains(key.page);
  }
  return at;
}

std::uint32_t redo::number_of(segment& in) {
  const auto known = std::ranges::find(segments_, &in);
  if (known == segments_.end()) {
    segments_.push_back(&in);
    return static_cast<std::uint32_t>(segments_.size() - 1);
  }
  return static_cast<std::uint32_t>(known - segments_.begin());
}

void redo::add(const group_view& group) {
  if (group.is_prepared()) return;
  std::vector<std::uint32_t> numbers;
  for (const auto& name : group.segments()) {
    segment* in = resolve_(name);
    numbers.push_back(in != nullptr ? number_of(*in) : none);
  }
  const auto& transactions = group.transactions();
  for (auto transaction = transactions.rbegin(); transaction != transactions.rend(); ++transaction) {
    if (transaction->flags & record_last) ++transactions_;
    ranges_ += transaction->ranges.size();
    for (auto run = transaction->runs.rbegin(); run != transaction->runs.rend(); ++run)
      if (const std::uint32_t in = numbers[run->segment]; in != none) {
        segments_[in]->note_bulk_logged(transaction->id, group.header().generation);
        add_bulk_run(in, *run);
      }
    // A truncation writes only records before the LSN that the segment has noted [rvm.segment.applied].
    const auto early = [&](std::uint32_t in) {
      const lsn applied = segments_[in]->applied_at_open();
      return applied == 0 || group.header().lsn < applied;
    };
    for (auto range = transaction->ranges.rbegin(); range != transaction->ranges.rend(); ++range)
      if (const std::uint32_t in = numbers[range->segment]; in != none)
        add_range(in, range->offset, range->value, early(in));
  }
}

void redo::require_in_segment(std::uint32_t in, std::uint64_t offset, std::uint64_t length) const {
  if (offset > segments_[in]->length() || length > segments_[in]->length() - offset)
    throw error(errc::segment_too_short, segments_[in]->path() + ": the log has a change at offset " +
                                             std::to_string(offset) + ", length " + std::to_string(length) +
                                             ", but the segment has only " + std::to_string(segments_[in]->length()) +
                                             " bytes; it is not the file that the log was written for, or was cut off");
}

void redo::add_bulk_run(std::uint32_t in, const bulk_run_view& run) {
  require_in_segment(in, run.offset, run.length());
  const std::uint64_t first = run.offset / redo_page;
  if (restricted_ && nodes_.size() < run.pages) {
    for (node& n : nodes_)
      if (n.key.segment == in && n.key.page >= first && n.key.page < first + run.pages) n.masked = true;
    return;
  }
  if (!restricted_) bulk_runs_.push_back({segments_[in], first, run.pages});
  for (std::uint64_t i = 0; i < run.pages; ++i) {
    const std::uint32_t at = node_of({in, first + i});
    if (at == page_index::none) continue;
    // Newer values may have been written to the segment already. Then the page has neither checksum.
    if (!restricted_ && !run.is_cleared() && !nodes_[at].masked && nodes_[at].covered == 0 && !segments_[in]->is_raw())
      checks_.push_back({at, run.checksum(i)});
    nodes_[at].masked = true;
  }
}

bool redo::knows(segment& in, std::uint64_t page) const {
  const auto number = std::ranges::find(segments_, &in);
  if (number == segments_.end()) return false;
  const std::uint32_t at = index_.find({static_cast<std::uint32_t>(number - segments_.begin()), page});
  return at != page_index::none && (nodes_[at].masked || nodes_[at].covered != 0);
}

bool redo::makes_sound(segment& in, std::uint64_t page) const {
  const auto number = std::ranges::find(segments_, &in);
  if (number == segments_.end()) return false;
  const std::uint32_t at = index_.find({static_cast<std::uint32_t>(number - segments_.begin()), page});
  if (at == page_index::none || nodes_[at].covered == 0) return false;
  return nodes_[at].covered == redo_page || (nodes_[at].early && !in.is_marked_damaged(page));
}

std::vector<page_ref> redo::damaged_pages() const {
  std::vector<check> order = checks_;
  std::ranges::sort(order, {}, [this](const check& c) { return nodes_[c.node].key.packed(); });
  const auto key = [&](std::size_t i) { return nodes_[order[i].node].key; };
  constexpr std::size_t longest_run = 256;  // pages a read: 1 MiB
  os::cleared_vector<std::byte> buffer(longest_run * redo_page);
  std::vector<page_ref> damaged;
  for (std::size_t i = 0, run; i < order.size(); i += run) {
    for (run = 1; i + run < order.size() && run < longest_run && key(i + run).packed() == key(i).packed() + run;
         ++run) {
    }
    segment& in = *segments_[key(i).segment];
    const auto bytes = os::bytes(buffer).first(run * redo_page);
    in.read(key(i).page * redo_page, bytes);
    for (std::size_t n = 0; n < run; ++n)
      if (crc32c(bytes.subspan(n * redo_page, redo_page)) != order[i + n].checksum &&
          !in.is_bulk_unlogged(key(i + n).page))
        damaged.push_back({&in, key(i + n).page});
  }
  return damaged;
}

void redo::add_range(std::uint32_t in, std::uint64_t offset, os::const_bytes value, bool early) {
  require_in_segment(in, offset, value.size());
  while (!value.empty()) {
    const page_key key{in, offset / redo_page};
    const auto from = static_cast<std::uint32_t>(offset % redo_page);
    const auto part = std::min<std::size_t>(value.size(), redo_page - from);
    const std::uint32_t at = node_of(key);
    if (at != page_index::none) nodes_[at].early |= early;
    if (at != page_index::none && nodes_[at].covered != redo_page && !nodes_[at].masked)
      add_piece(nodes_[at], from, static_cast<std::uint32_t>(from + part), value.data());
    value = value.subspan(part);
    offset += part;
  }
}

void redo::add_piece(node& page, std::uint32_t from, std::uint32_t to, const std::byte* value) {
  const auto add = [&](std::uint32_t begin, std::uint32_t end) {
    pieces_.push_back({keep(value + (begin - from), end - begin), static_cast<std::uint16_t>(begin),
                       static_cast<std::uint16_t>(end - begin), page.first});
    page.first = static_cast<std::uint32_t>(pieces_.size() - 1);
    page.covered = static_cast<std::uint16_t>(page.covered + (end - begin));
    ++page.pieces;
  };
  if (page.bitmap == none && page.pieces >= few_pieces) {
    page.bitmap = static_cast<std::uint32_t>(bitmaps_.size());
    bitmaps_.emplace_back();
    for (std::uint32_t p = page.first; p != none; p = pieces_[p].next)
      bitmaps_.back().insert(pieces_[p].from, pieces_[p].from + std::uint32_t{pieces_[p].length});
  }
  if (page.bitmap != none) {
    bitmaps_[page.bitmap].for_each_missing(from, to, add);
    bitmaps_[page.bitmap].insert(from, to);
    return;
  }
  // Removes each piece from the range. The remaining parts are new. There is at most one part more than there are
  // pieces.
  struct part {
    std::uint32_t from, to;
  };
  part left[few_pieces + 1] = {{from, to}};
  std::size_t parts = 1;
  for (std::uint32_t p = page.first; p != none && parts != 0; p = pieces_[p].next) {
    const std::uint32_t begin = pieces_[p].from, end = begin + pieces_[p].length;
    for (std::size_t i = 0; i < parts;) {
      part& at = left[i];
      if (end <= at.from || at.to <= begin) {
        ++i;
      } else if (at.from < begin && end < at.to) {
        left[parts++] = {end, at.to};
        at.to = begin;
        ++i;
      } else if (at.from < begin) {
        at.to = begin;
        ++i;
      } else if (end < at.to) {
        at.from = end;
        ++i;
      } else {
        at = left[--parts];
      }
    }
  }
  for (std::size_t i = 0; i < parts; ++i) add(left[i].from, left[i].to);
}

const std::byte* redo::keep(const std::byte* value, std::size_t length) {
  if (blocks_used_ == 0 || arena_[blocks_used_ - 1].get_deleter().length - block_at_ < length) {
    if (blocks_used_ == arena_.size()) {
      const std::size_t size = arena_.empty() ? first_block : next_block;
      arena_.reserve(arena_.size() + 1);
      void* const made = arena_.empty() ? os::map_anonymous(nullptr, size) : os::map_anonymous_huge(size);
      arena_.emplace_back(static_cast<std::byte*>(made), unmap{size});
      os::exclude_from_fork(made, size);  // values that were logged are no pointers of the program
    }
    ++blocks_used_;
    block_at_ = 0;
  }
  std::byte* at = arena_[blocks_used_ - 1].get() + block_at_;
  std::memcpy(at, value, length);
  block_at_ += length;
  return at;
}

void redo::clear() {
  assert(!restricted_);
  segments_.clear();
  index_.clear();
  nodes_.clear();
  pieces_.clear();
  checks_.clear();
  bulk_runs_.clear();
  masked_.clear();
  bitmaps_.clear();
  blocks_used_ = block_at_ = 0;
  transactions_ = ranges_ = 0;
  findings_ = {};
}

std::vector<const redo::node*> redo::in_order() const {
  std::vector<const node*> order;
  order.reserve(nodes_.size());
  for (const node& n : nodes_)
    if (n.covered != 0) order.push_back(&n);
  std::ranges::sort(order, {}, [](const node* n) { return n->key.packed(); });
  return order;
}

void redo::apply(std::vector<recovery_report::segment>& report) {
  std::set<segment*> written;
  write(report, written);
  for (segment* s : written) s->finish_writes();
}

// Bytes that are not overwritten keep their damage, and a new checksum would hide it.
std::vector<std::uint64_t> redo::mark_damaged_pages(std::span<const node* const> pages, os::bytes bytes) {
  segment& in = *segments_[pages.front()->key.segment];
  std::vector<std::uint64_t> all, found;
  for (std::size_t n = 0; n < pages.size(); ++n) {
    const std::uint64_t page = pages[n]->key.page;
    if (pages[n]->covered == redo_page) continue;
    const os::bytes at = bytes.subspan(n * redo_page, redo_page);
    auto state = in.check(page, at);
    if (state == segment::page_state::damaged) {  // or was damaged while it was read: such damage need not last
      in.read(page * redo_page, at);
      state = in.check(page, at);
    }
    if (state == segment::page_state::sound) continue;
    if (state == segment::page_state::damaged && after_crash_ && pages[n]->early) {
      ++findings_.unproven;
      continue;
    }
    all.push_back(page);
    if (state == segment::page_state::known_damaged)
      ++findings_.known_damaged;
    else
      found.push_back(page);
  }
  if (!found.empty()) in.mark_damaged(found);
  for (const std::uint64_t page : found) findings_.damaged.push_back({&in, page});
  return all;
}

void redo::write(std::vector<recovery_report::segment>& report, std::set<segment*>& written) {
  constexpr std::size_t longest_run = 256;  // pages a write: 1 MiB
  os::cleared_vector<std::byte> buffer(longest_run * redo_page);
  const auto order = in_order();
  const auto for_each_run = [&](auto&& f) {
    for (std::size_t i = 0, run; i < order.size(); i += run) {
      for (run = 1;
           i + run < order.size() && run < longest_run && order[i + run]->key.packed() == order[i]->key.packed() + run;)
        ++run;
      const auto pages = std::span(order).subspan(i, run);
      const bool is_partial = std::ranges::any_of(pages, [](const node* n) { return n->covered != redo_page; });
      f(*segments_[order[i]->key.segment], i, pages, os::bytes(buffer).first(run * redo_page), is_partial);
    }
  };
  // Pages of which the log has only a part are read. When they are requested well ahead, many are read at a time. On a
  // cold disk these reads are most of a recovery's time.
  constexpr std::size_t pages_ahead = 1024;
  std::size_t ahead = 0;
  std::set<std::pair<segment*, std::uint64_t>> damaged;
  for_each_run([&](segment& in, std::size_t i, auto pages, os::bytes bytes, bool is_partial) {
    for (; ahead < std::min(order.size(), i + pages_ahead); ++ahead)
      if (const node& n = *order[ahead]; n.covered != redo_page)
        segments_[n.key.segment]->read_ahead(n.key.page * redo_page, redo_page);
    if (!is_partial) return;
    in.read(pages.front()->key.page * redo_page, bytes);
    for (const std::uint64_t page : mark_damaged_pages(pages, bytes)) damaged.emplace(&in, page);
  });
  // Done when all damage is known, and before any page of any segment is written. If a note fails, all pages are as
  // they were.
  for (const node* n : order)
    if (segment& in = *segments_[n->key.segment]; written.insert(&in).second) in.note_applied(through_);
  for_each_run([&](segment& in, std::size_t, auto pages, os::bytes bytes, bool is_partial) {
    const std::uint64_t first = pages.front()->key.page;
    if (is_partial) in.read(first * redo_page, bytes);
    auto entry = std::ranges::find(report, in.path(), &recovery_report::segment::path);
    if (entry == report.end()) entry = report.insert(entry, {in.path()});
    for (std::size_t n = 0; n < pages.size(); ++n) {
      const node& page = *pages[n];
      for (std::uint32_t p = page.first; p != none; p = pieces_[p].next)
        std::memcpy(bytes.data() + n * redo_page + pieces_[p].from, pieces_[p].value, pieces_[p].length);
      ++entry->pages;
      entry->bytes += page.covered;
    }
    in.write_pages(first, bytes);
    for (const node* n : pages)
      if (damaged.contains({&in, n->key.page})) in.mark_still_damaged(n->key.page);
  });
}

void redo::for_each(const std::function<void(segment&, std::uint64_t, os::const_bytes)>& f) const {
  for (const node* n : in_order())
    for (std::uint32_t p = n->first; p != none; p = pieces_[p].next)
      f(*segments_[n->key.segment], n->key.page * redo_page + pieces_[p].from, {pieces_[p].value, pieces_[p].length});
}

std::size_t redo::memory_used() const {
  std::size_t values = blocks_used_ == 0 ? 0 : block_at_;
  for (std::size_t i = 0; i + 1 < blocks_used_; ++i) values += arena_[i].get_deleter().length;
  return index_.memory_used() + nodes_.size() * sizeof(node) + pieces_.size() * sizeof(piece) +
         checks_.size() * sizeof(check) + bitmaps_.size() * sizeof(page_bytes) + values;
}

namespace {

// Adds the groups of a part of the log to `values`, last to first, until they take more than `memory`. Returns the part
// that was not added. It always adds at least one group.
log_part collect(redo& values, const readable_log& log, const log_part& from, std::uint64_t memory,
                 recovery_report& report, const std::function<void(std::uint64_t)>& on_read) {
  log_part left = from;
  std::uint64_t groups = 0;
  read_backwards(log, from, [&](const group_view& group) {
    values.add(group);
    left.to = group.header().lsn;
    left.last_group = left.to - group.header().previous;
    if (++groups % 64 == 0) on_read(from.to - left.to);
    return values.memory_used() <= memory;
  });
  report.groups += groups;
  report.bytes_read += from.to - left.to;
  return left;
}

struct known_bulk_run {
  lsn at;  // of its group
  page_run pages;
};
// The bulk runs of a part of the log. They are needed when the log is replayed in parts, oldest first: an old record
// must not overwrite pages of a bulk run that only a newer part contains.
std::vector<known_bulk_run> find_bulk_runs(const readable_log& log, const log_part& older,
                                           const segment_resolver& resolve) {
  std::vector<known_bulk_run> all;
  read_backwards(log, older, [&](const group_view& group) {
    for (const transaction_view& tx : group.transactions())
      for (const bulk_run_view& run : tx.runs)
        if (segment* const in = resolve(group.segments()[run.segment]))
          all.push_back({group.header().lsn, {in, run.offset / redo_page, run.pages}});
    return true;
  });
  return all;
}

// Removes the pages that a newer part of the log changes. A truncation that a crash interrupted may have written them.
void leave_out_changed(std::vector<page_ref>& pages, const readable_log& log, const log_part& newer,
                       const segment_resolver& resolve) {
  redo values(resolve);
  values.restrict();
  for (const page_ref& page : pages) values.restrict_to(*page.in, page.page);
  read_backwards(log, newer, [&](const group_view& group) {
    values.add(group);
    return true;
  });
  std::erase_if(pages, [&](const page_ref& page) { return values.knows(*page.in, page.page); });
}

}  // namespace

// The memory that the newest part of the log takes tells how much of the rest fits. The newest part is kept and written
// last. So a log whose changes all fit is read once, and each page is written once.
void replay(const readable_log& log, const log_part& all, const replay_settings& how, recovery_report& report) {
  std::uint64_t read = 0;
  const auto on_read = [&](std::uint64_t now) {
    if (how.progress) how.progress({"recovering", std::min(read + now, all.length()), all.length()});
  };
  std::set<segment*> written;
  const auto write = [&](redo& values) {
    values.expect_torn_pages();
    values.set_through(all.to);
    values.write(report.segments, written);
    for (const page_ref& page : values.findings().damaged)
      report.damaged.push_back({page.in->path(), page.page * redo_page});
    report.unproven_pages += values.findings().unproven;
    report.transactions += values.transactions();
    report.ranges += values.ranges();
  };
  redo newest(how.resolve);
  const log_part older = collect(newest, log, all, how.memory / 2, report, on_read);
  if (const auto pages = newest.damaged_pages(); !pages.empty()) how.damaged(pages);
  std::vector<known_bulk_run> runs;
  if (older.length() != 0 && how.may_have_extents) runs = find_bulk_runs(log, older, how.resolve);
  std::uint64_t length = (all.to - older.to) / 2;
  redo values(how.resolve);
  for (lsn at = all.from; at < older.to;) {
    read = at - all.from + (all.to - older.to);
    log_part part{at, older.to, older.last_group};
    if (part.length() > length)
      if (const auto cut = find_group(log, round_up(at + length, log.block()), part.to))
        part = {at, cut->at, cut->previous};
    values.clear();
    for (const known_bulk_run& e : runs)
      if (e.at >= part.to) values.mask(*e.pages.in, e.pages.page, e.pages.pages);
    for (const page_run& pages : newest.runs()) values.mask(*pages.in, pages.page, pages.pages);
    recovery_report tried = report;
    if (collect(values, log, part, how.memory / 2, tried, on_read).length() != 0) {
      length = std::max<std::uint64_t>(length / 2, log.block());
      continue;
    }
    report = std::move(tried);
    if (auto pages = values.damaged_pages(); !pages.empty()) {
      leave_out_changed(pages, log, {part.to, all.to, all.last_group}, how.resolve);
      if (!pages.empty()) how.damaged(pages);
    }
    write(values);
    at = part.to;
  }
  write(newest);
  for (segment* s : written) s->finish_writes();
  report.bytes_applied = 0;
  for (const auto& s : report.segments) report.bytes_applied += s.bytes;
}

}  // namespace tenure::rvm
