// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "support/workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <tenure/barriers.hpp>

#include "os/virtual_memory.hpp"
#include "support/mechanisms.hpp"

namespace tenure::rvm::testing {

workload::workload(sim::disk& on, const layout& of, model& keeps, const workload_options& how)
    : disk_(on),
      layout_(of),
      model_(keeps),
      how_(how),
      announces_(how.seed % 3 == 0),
      random_(how.seed),
      announcing_(how.seed) {}

workload::~workload() = default;

void workload::run() {
  open();
  for (std::uint64_t i = 0; i < how_.steps; ++i) {
    step();
    if (memory_) memory_->check();
    look();
  }
  collect();
}

void workload::open() {
  try {
    last_ = {};
    memory_.emplace(layout_.log_path, layout_.how(disk_));
    model_.opened();
    for (std::size_t s = 0; s < layout_.segments.size(); ++s) map_segment(s);
  } catch (const error&) {
    regions_.clear();
    paged_ = {};
    memory_.reset();
    throw;
  }
  model_.memory = model_.newest();
  look();
}

std::vector<error> workload::run_through_errors() {
  std::vector<error> errors;
  std::uint64_t refused = 0;
  for (std::uint64_t i = 0; i < how_.steps && refused < 5; ++i) {
    try {
      if (!memory_) open();
      if (refused == 0) step();
    } catch (const error& e) {
      errors.push_back(e);
      end_failed_commit(e);
    }
    if (memory_ && !errors.empty() && !accepts_transactions()) {
      // Once it has refused it refuses for ever, but what is open can be aborted.
      if (++refused == 1) abort_all();
    } else if (refused != 0) {
      throw std::logic_error("a memory that had refused a transaction accepted one");
    }
    look();
  }
  collect();
  return errors;
}

void workload::end_failed_commit(const error& why) {
  if (!committing_) return;
  open_tx& tx = open_[*committing_];
  if (!tx.tx.is_open()) throw std::logic_error("a transaction whose commit threw is not open");
  // Anything but outcome_unknown says that it is not committed.
  if (why.code() != errc::outcome_unknown) model_.not_committed();
  if (tx.automatic) {
    // Memory keeps what was captured before the log failed; else it is restored.
    const image kept = model_.memory;
    abort(*committing_);
    if (why.code() == errc::outcome_unknown && !memory_is_as_expected()) model_.memory = kept;
  } else if (tx.mode == restore_mode::restore)
    abort(*committing_);
  else
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(*committing_));
  committing_.reset();
}

void workload::abort_all() {
  for (std::size_t i = open_.size(); i-- > 0;)
    if (open_[i].mode == restore_mode::restore)
      abort(i);
    else
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
}

bool workload::accepts_transactions() {
  try {
    transaction tx = memory_->begin();
    const auto first = std::ranges::find(regions_, false, &mapped::automatic);
    std::byte* const at = first == regions_.end() ? nullptr : first->in.data();
    const byte_range r{first == regions_.end() ? 0 : first->at, 1};
    for (const auto& other : open_)
      for (const auto& taken : other.ranges)
        if (at == nullptr || (taken.at < r.at + r.length && r.at < taken.at + taken.length)) return true;
    if (at != nullptr) tx.set_range(at, 1);
    tx.abort();
    return true;
  } catch (const error&) {
    return false;
  }
}

void workload::collect() {
  if (!memory_) return;
  const statistics s = memory_->stats();
  for (const auto part :
       {&statistics::flush_commits, &statistics::no_flush_commits, &statistics::aborts, &statistics::intra_ranges_saved,
        &statistics::inter_transactions_saved, &statistics::batches, &statistics::log_bytes_written,
        &statistics::log_grown, &statistics::incremental_truncations, &statistics::epoch_truncations,
        &statistics::truncation_blocked, &statistics::truncation_waits, &statistics::private_pages_dropped,
        &statistics::private_pages_kept, &statistics::bulk_runs, &statistics::cleared_bytes})
    totals_.*part += s.*part;
}

workload::counts workload::totals() const { return totals_; }

// In one, two or three regions.
void workload::map_segment(std::size_t segment) {
  if (how_.paged && segment + 1 == layout_.segments.size()) return open_pages();
  const auto& s = layout_.segments[segment];
  const bool is_there = s.raw || disk_.exists(s.path);
  const std::uint64_t page = os::page_size(),
                      pages = (is_there ? memory_->segment_length(s.path, s.raw) : s.first_length()) / page;
  std::vector<std::uint64_t> cuts{0, pages};
  for (std::uint64_t n = random_.below(3); n != 0; --n) cuts.push_back(random_.below(pages));
  std::ranges::sort(cuts);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] == cuts[i + 1]) continue;
    map_options how;
    how.offset = cuts[i] * page;
    how.length = (cuts[i + 1] - cuts[i]) * page;
    how.raw = s.raw;
    how.create_length = s.raw ? 0 : s.first_length();
    how.create_max_length = s.length;
    how.copy_in = random_.one_in(4);
    if (s.initial != 0 && cuts[i + 1] == pages) {
      how.length = 0;
      how.reserve = true;
      how.fresh = random_.one_in(2) ? fresh_space::file : fresh_space::anonymous;
    }
    if (is_automatic(segment)) {
      how.copy_in = false;
      how.fresh = fresh_space::file;
      how.tracking = tracking_mode::automatic;
      how.force_mechanism = support::mechanisms[random_.below(support::mechanisms.size())];
      how.tracking_strict = random_.one_in(4);
    } else if (announces_) {
      how.barriers = write_barriers::announced;
    }
    regions_.push_back(
        {memory_->map(s.path, how), segment, layout_.start(segment) + how.offset, is_automatic(segment)});
  }
}

void workload::open_pages() {
  const auto& s = layout_.segments.back();
  if (!disk_.exists(s.path)) memory_->create_segment(s.path, {.length = s.length});
  paged_ = memory_->open_pages(s.path);
}

void workload::close_pages() {
  try {
    paged_.close();
  } catch (const error&) {
    try {
      (void)paged_.size();
    } catch (const error&) {  // gone, and only its segment could not be closed
      paged_ = {};
    }
    throw;
  }
  paged_ = {};
}

bool workload::is_automatic(std::size_t segment) const {
  return how_.automatic && segment + 1 == layout_.segments.size();
}

bool workload::has_automatic_transaction() const { return std::ranges::any_of(open_, &open_tx::automatic); }

bool workload::memory_is_as_expected() const {
  return std::ranges::all_of(regions_, [&](const mapped& r) {
    return std::memcmp(r.in.data(), model_.memory.data() + r.at, r.in.size()) == 0;
  });
}

// What the program sees is what the model says, at any time: aborts restore, truncation disturbs nothing.
void workload::look() {
  if (paged_) look_at_pages();
  image seen = model_.memory;
  for (const auto& r : regions_) std::memcpy(seen.data() + r.at, r.in.data(), r.in.size());
  image expected = model_.memory;
  forget_free_pages(expected, layout_);
  forget_free_pages(seen, layout_);
  for (const auto& r : regions_)
    if (std::memcmp(seen.data() + r.at, expected.data() + r.at, r.in.size()) != 0) {
      std::size_t at = 0;
      while (seen[r.at + at] == expected[r.at + at]) ++at;
      throw std::logic_error("memory differs from the model at offset " + std::to_string(r.in.offset() + at) + " of " +
                             layout_.segments[r.segment].path);
    }
}

// What is committed can be read, whether it is in the segment, in the log or in neither.
void workload::look_at_pages() {
  try {
    memory_->require_usable();
  } catch (const error&) {  // nobody knows what was committed
    return;
  }
  const std::uint64_t pages = layout_.segments.back().length / 4096, first = random_.below(pages);
  image seen(4096 * (1 + random_.below(pages - first)));
  try {
    paged_.read(first, seen);
  } catch (const error&) {  // a read that fails can be repeated
    paged_.read(first, seen);
  }
  const auto expected = model_.newest().begin() + static_cast<std::ptrdiff_t>(pages_at() + first * 4096);
  if (const auto at = std::mismatch(seen.begin(), seen.end(), expected).first; at != seen.end())
    throw std::logic_error("pages from " + std::to_string(first) + " on differ from the model at offset " +
                           std::to_string(at - seen.begin()));
}

void workload::step() {
  const bool special =
      std::ranges::any_of(layout_.segments, [](const segment_layout& s) { return s.initial != 0 || s.bulk_from != 0; });
  if (special && !open_.empty() && random_.one_in(3)) return grow_or_write_bulk();
  const std::uint64_t dice = random_.below(100);
  if (open_.empty() || (dice < 10 && open_.size() < 4)) return begin();
  const std::size_t which = random_.below(open_.size());
  if (random_.one_in(8)) return begin_or_end_inner(open_[which]);
  if (dice < 45) return change(open_[which]);
  if (dice < 80) return commit(which);
  if (dice < 85) return abort(which);
  if (dice < 88) {
    memory_->flush();
    model_.acknowledge();
  } else if (dice < 90) {
    memory_->wait(last_);
    model_.acknowledge(last_);
  } else if (dice < 92) {
    memory_->truncate();
    model_.acknowledge();
  } else if (dice < 97) {
    (void)memory_->truncate_incrementally(1 + random_.below(layout_.log.size / 2));
  } else if (dice < 99) {
    unmap_and_map();
  } else if (how_.reopen) {
    reopen();
  }
}

void workload::begin() {
  const auto mode = random_.one_in(3) ? restore_mode::no_restore : restore_mode::restore;
  if (how_.automatic && !has_automatic_transaction() && random_.one_in(2))
    open_.push_back({memory_->begin_automatic(), restore_mode::restore, random_.one_in(4), true, {}, {}});
  else
    open_.push_back({memory_->begin(mode), mode, random_.one_in(4), false, {}, {}});
  if (random_.one_in(4)) open_.back().tx.label("number " + std::to_string(random_.below(1000)));
}

bool workload::free_for(const open_tx& tx, const byte_range& r) const {
  for (const auto& other : open_) {
    if (&other == &tx) continue;
    for (const auto& taken : other.ranges)
      if (taken.at < r.at + r.length && r.at < taken.at + taken.length) return false;
  }
  return true;
}

void workload::change_pages(open_tx& tx) {
  const std::uint64_t all = layout_.segments.back().length;
  byte_range r;
  r.length = random_.one_in(8) ? 4096 * (1 + random_.below(3)) : 1 + random_.below(random_.one_in(3) ? 6000 : 100);
  r.at = pages_at() +
         (r.length % 4096 == 0 ? random_.below((all - r.length) / 4096 + 1) * 4096 : random_.below(all - r.length + 1));
  // Overlaps with what it has changed before: the later one holds.
  if (!tx.ranges.empty() && random_.one_in(3))
    if (const byte_range& old = tx.ranges[random_.below(tx.ranges.size())]; old.at >= pages_at()) {
      r.at = old.at + random_.below(old.length);
      r.length = std::min(r.length, pages_at() + all - r.at);
    }
  if (!free_for(tx, r)) return;
  image& value = tx.values.emplace_back(r.length);
  fill_random(value.data(), value.size(), random_);
  tx.tx.change(paged_, r.at - pages_at(), value);
  const auto in_model = model_.memory.begin() + static_cast<std::ptrdiff_t>(r.at);
  tx.undo.emplace_back(r.at, image(in_model, in_model + static_cast<std::ptrdiff_t>(r.length)));
  tx.ranges.push_back(r);
  std::ranges::copy(value, in_model);
}

void workload::change(open_tx& tx) {
  if (paged_ && !tx.automatic && random_.one_in(2)) return change_pages(tx);
  if (regions_.empty()) return;  // after a fault in map
  const mapped& in = regions_[random_.below(regions_.size())];
  const std::uint64_t begin = in.at, end = in.at + in.in.size();
  byte_range r;
  const std::uint64_t dice = random_.below(20);
  r.length = dice < 12   ? 1 + random_.below(100)
             : dice < 18 ? 1 + random_.below(std::min<std::uint64_t>(how_.longest_range, 2000))
                         : 1 + random_.below(how_.longest_range);
  r.length = std::min(r.length, end - begin);
  r.at = begin + random_.below(end - begin - r.length + 1);
  // Duplicates, neighbours and overlaps of what was declared before.
  if (!tx.ranges.empty() && random_.one_in(3)) {
    const byte_range& old = tx.ranges[random_.below(tx.ranges.size())];
    switch (random_.below(4)) {
      case 0: r = old; break;
      case 1: r.at = old.at + old.length; break;
      case 2: r.at = old.at - std::min(old.at, r.length); break;
      default: r.at = old.at + random_.below(old.length); break;
    }
  }
  if (tx.repeats) r = {regions_.front().at, 16};  // the same place again and again
  const auto home = std::ranges::find_if(
      regions_, [&](const mapped& m) { return m.at <= r.at && r.at + r.length <= m.at + m.in.size(); });
  if (home == regions_.end() || !free_for(tx, r) || !allowed(tx, r) || (home->automatic && !tx.automatic)) return;

  std::byte* const at = home->in.data() + (r.at - home->at);
  tx.undo.emplace_back(r.at, image(at, at + r.length));
  tx.ranges.push_back(r);
  std::vector<std::byte> value(model_.memory.begin() + static_cast<std::ptrdiff_t>(r.at),
                               model_.memory.begin() + static_cast<std::ptrdiff_t>(r.at + r.length));
  if (!random_.one_in(10)) {  // else declared, but not changed
    const std::size_t from = random_.one_in(3) ? random_.below(value.size()) : 0;
    fill_random(value.data() + from, value.size() - from, random_);
  }
  if (home->automatic && !random_.one_in(4)) {
    std::memcpy(at, value.data(), value.size());
  } else if (const bool modifies = random_.one_in(4);
             announces_ && !tx.automatic && &tx == &open_.back() && announcing_.one_in(2)) {
    announce_store(at, value.size());  // it declares in the newest transaction
    std::memcpy(at, value.data(), value.size());
    ++totals_.announced;
  } else if (modifies) {
    tx.tx.modify(at, value.data(), value.size());
  } else {
    tx.tx.set_range(at, value.size());
    std::memcpy(at, value.data(), value.size());
  }
  std::memcpy(model_.memory.data() + r.at, value.data(), value.size());
}

const workload::mapped* workload::home_of(const byte_range& r) const {
  const auto home = std::ranges::find_if(
      regions_, [&](const mapped& m) { return m.at <= r.at && r.at + r.length <= m.at + m.in.size(); });
  return home == regions_.end() ? nullptr : &*home;
}

void workload::grow_or_write_bulk() {
  if (regions_.empty()) return;  // after a fault in map
  const std::size_t segment = random_.below(layout_.segments.size());
  open_tx& tx = open_[random_.below(open_.size())];
  const std::uint64_t dice = random_.below(8);
  if (dice == 0) return grow(segment);
  // These can fail before anything is logged, after which a no_restore transaction would leave memory as nobody expects.
  if (dice < 7 && tx.mode == restore_mode::no_restore) return;
  if (dice < 6) return write_bulk(tx, segment);
  if (dice == 6) return free_page(tx, segment);
  mapped& r = regions_[random_.below(regions_.size())];
  (void)r.in.back_with_file(0, r.in.size());
}

void workload::grow(std::size_t segment) {
  const auto& s = layout_.segments[segment];
  if (s.initial == 0) return;
  const std::uint64_t now = memory_->segment_length(s.path);
  if (now < s.length)
    memory_->grow_segment(s.path, now + 1 + random_.below(std::min<std::uint64_t>(s.length - now, 20000)));
}

bool workload::allowed(const open_tx& tx, const byte_range& r) const {
  for (std::size_t i = 0; i < layout_.segments.size(); ++i) {
    const auto& s = layout_.segments[i];
    const std::uint64_t zone = layout_.start(i) + s.bulk_from, end = layout_.start(i) + s.length;
    if (s.bulk_from == 0 || r.at + r.length <= zone || r.at >= end) continue;
    const std::uint64_t n = r.at < zone ? 0 : (r.at - zone) / 4096;
    if (n == 0 || (r.at + r.length - 1 - zone) / 4096 != n || model_.memory[zone + n] == std::byte{0}) return false;
    const bool own = std::ranges::any_of(tx.ranges, [&](const byte_range& mine) {
      return mine.at <= zone + n * 4096 && mine.at + mine.length >= zone + (n + 1) * 4096;
    });
    if (model_.newest()[zone + n] == std::byte{0} && !own) return false;
  }
  return true;
}

void workload::set_used(open_tx& tx, const byte_range& flags, bool used) {
  const mapped& home = *home_of(flags);
  std::byte* const at = home.in.data() + (flags.at - home.at);
  tx.undo.emplace_back(flags.at, image(at, at + flags.length));
  tx.ranges.push_back(flags);
  tx.tx.set_range(at, flags.length);
  std::memset(at, used ? 1 : 0, flags.length);
  std::memset(model_.memory.data() + flags.at, used ? 1 : 0, flags.length);
}

void workload::write_bulk(open_tx& tx, std::size_t segment) {
  const auto& s = layout_.segments[segment];
  if (s.bulk_from == 0) return;
  const std::uint64_t zone = layout_.start(segment) + s.bulk_from, first = 1 + random_.below(s.bulk_pages());
  const byte_range flags{zone + first, std::min(1 + random_.below(4), s.bulk_pages() + 1 - first)};
  const byte_range pages{zone + first * 4096, flags.length * 4096};
  const auto is_free = [&](const image& in) {
    return std::all_of(in.begin() + static_cast<std::ptrdiff_t>(flags.at),
                       in.begin() + static_cast<std::ptrdiff_t>(flags.at + flags.length),
                       [](std::byte b) { return b == std::byte{0}; });
  };
  const mapped* const home = home_of(pages);
  if (home == nullptr || home_of(flags) == nullptr || !is_free(model_.memory) || !is_free(model_.newest()) ||
      !free_for(tx, flags) || !free_for(tx, pages))
    return;
  if (random_.one_in(4)) {
    tx.tx.clear(home->in, pages.at - home->at, pages.length);
    tx.ranges.push_back(pages);
    return;
  }
  std::byte* const at = home->in.data() + (pages.at - home->at);
  tx.tx.hold(at, pages.length);
  fill_random(at, pages.length, random_);
  std::memcpy(model_.memory.data() + pages.at, at, pages.length);
  // In pieces of any length.
  std::vector<std::span<const std::byte>> pieces;
  for (std::uint64_t done = 0, part; done < pages.length; done += part) {
    part = random_.one_in(2) ? pages.length - done : random_.below(pages.length - done + 1);
    pieces.push_back({at + done, part});
  }
  tx.tx.write_bulk(home->in, pages.at - home->at, pieces);
  tx.ranges.push_back(pages);
  set_used(tx, flags, true);
}

void workload::free_page(open_tx& tx, std::size_t segment) {
  const auto& s = layout_.segments[segment];
  if (s.bulk_from == 0) return;
  const std::uint64_t zone = layout_.start(segment) + s.bulk_from, n = 1 + random_.below(s.bulk_pages());
  const byte_range flag{zone + n, 1};
  if (model_.memory[flag.at] == std::byte{0} || model_.newest()[flag.at] == std::byte{0} || home_of(flag) == nullptr ||
      !free_for(tx, flag) || !free_for(tx, {zone + n * 4096, 4096}))
    return;
  set_used(tx, flag, false);
}

void workload::begin_or_end_inner(open_tx& tx) {
  if (tx.mode == restore_mode::no_restore) return;
  if (!tx.levels.empty() && random_.one_in(2)) return end_inner(tx);
  tx.levels.push_back({tx.tx.begin_inner(), tx.undo.size()});
  totals_.deepest_inner = std::max<std::uint64_t>(totals_.deepest_inner, tx.levels.size());
}

void workload::end_inner(open_tx& tx) {
  inner& last = tx.levels.back();
  if (random_.one_in(2)) {
    last.tx.commit();
  } else {
    put_back(tx, last.undo);
    tx.undo.resize(last.undo);
    if (random_.one_in(2)) last.tx.abort();
    ++totals_.inner_aborts;
  }
  tx.levels.pop_back();  // which aborts, too
}

void workload::put_back(const open_tx& tx, std::size_t kept) {
  for (std::size_t n = tx.undo.size(); n-- > kept;)
    std::ranges::copy(tx.undo[n].second, model_.memory.begin() + static_cast<std::ptrdiff_t>(tx.undo[n].first));
}

void workload::commit(std::size_t which) {
  open_tx& tx = open_[which];
  while (!tx.levels.empty()) end_inner(tx);
  const auto mode = random_.one_in(how_.flush_every) ? commit_mode::flush : commit_mode::no_flush;
  model_.committing(tx.ranges);
  committing_ = which;
  last_ = tx.tx.commit(mode);
  committing_.reset();
  model_.committed(last_);
  if (mode == commit_mode::flush) model_.acknowledge();
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
}

void workload::abort(std::size_t which) {
  open_tx& tx = open_[which];
  if (tx.mode == restore_mode::no_restore) return;
  put_back(tx, 0);
  if (random_.one_in(2)) tx.tx.abort();
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));  // which aborts, too
}

void workload::end_all() {
  for (std::size_t i = open_.size(); i-- > 0;)
    if (open_[i].mode == restore_mode::no_restore || random_.one_in(2)) {
      commit(i);
    } else {
      abort(i);
    }
}

void workload::unmap_and_map() {
  const std::size_t segment = random_.below(layout_.segments.size());
  if (is_automatic(segment) && has_automatic_transaction()) return;  // busy
  if (paged_ && segment + 1 == layout_.segments.size()) {
    for (const auto& tx : open_)
      if (!tx.values.empty()) return;  // busy
    close_pages();
    model_.acknowledge();
    return open_pages();
  }
  for (auto& r : regions_) {
    if (r.segment != segment) continue;
    for (const auto& tx : open_)
      for (const auto& range : tx.ranges)
        if (r.at <= range.at && range.at < r.at + r.in.size()) return;  // busy
  }
  for (std::size_t i = regions_.size(); i-- > 0;) {
    if (regions_[i].segment != segment) continue;
    try {
      regions_[i].in.unmap();
    } catch (const error&) {
      // Either still mapped, or gone and only its segment could not be closed.
      if (regions_[i].in.data() == nullptr) regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(i));
      throw;
    }
    model_.acknowledge();
    regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  map_segment(segment);
}

void workload::reopen() {
  end_all();
  collect();
  try {
    memory_->close();
    model_.acknowledge();
  } catch (const error&) {  // is closed all the same
    regions_.clear();
    paged_ = {};
    memory_.reset();
    throw;
  }
  regions_.clear();
  paged_ = {};
  memory_.reset();
  open();
}

}  // namespace tenure::rvm::testing
