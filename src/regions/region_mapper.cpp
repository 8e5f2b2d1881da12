// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
#include "regions/region_mapper.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>

#include "os/asymmetric_fence.hpp"
#include "os/process.hpp"
#include "os/virtual_memory.hpp"
#include "regions/cards.hpp"
#include "regions/declared_stores.hpp"
#include "regions/open_segment.hpp"
#include "regions/paged_state.hpp"
#include "replay/recovery.hpp"

namespace tenure::rvm {

void region_mapper::close_unless_mapped(segment& which) {
  if (which.is_new_member()) return;
  for (const auto& r : regions_.all())
    if (r->in == &which) return;
  for (const auto& p : paged_)
    if (&p->in() == &which) return;
  segments_.close(which);
}

std::shared_ptr<region_state> region_mapper::map(const std::string& segment_path, const map_options& want) {
  opening_.require_usable();
  const std::uint64_t page = os::page_size();
  const auto aligned = [&](std::uint64_t value, const char* what) {
    if (value % page != 0)
      throw error(errc::misaligned, segment_path + ": the region's " + what + ", " + std::to_string(value) +
                                        ", is not a multiple of the page size, " + std::to_string(page));
  };
  aligned(want.offset, "offset");
  aligned(reinterpret_cast<std::uintptr_t>(want.address), "address");
  const bool tracked = want.tracking == tracking_mode::automatic;
  if (!want.raw || tracked || want.length % raw_block != 0) aligned(want.length, "length");
  if (tracked && want.copy_in)
    throw error(errc::bad_option,
                segment_path + ": automatic tracking needs a mapping of the file; map the region without copy_in");
  if (want.barriers != write_barriers::none && want.tracking_strict)
    throw error(
        errc::bad_option,
        segment_path +
            ": barriers leave pages open, which strict tracking excludes; map the region without tracking_strict");
  if (!card_layout::is_possible(want.card_size))
    throw error(errc::bad_option, segment_path + ": cards of " + std::to_string(want.card_size) +
                                      " bytes: card_size must be a power of two from " +
                                      std::to_string(card_layout::least) + " to " + std::to_string(card_layout::most));
  if (want.barriers == write_barriers::cards && !tracked)
    throw error(errc::bad_option, segment_path +
                                      ": cards are of pages that are compared; where ranges are declared, barriers "
                                      "declare exact bytes: map the region with write_barriers::announced");
  unmap_left();
  const std::scoped_lock lock(mutex_);
  if (want.create_length != 0 && !want.raw && !opening_.is_read_only() &&
      !how_.disk.exists(os::absolute_path(segment_path)))
    try {
      segment::create(how_.disk, os::absolute_path(segment_path),
                      {.length = want.create_length, .max_length = want.create_max_length});
    } catch (const error& e) {  // another process may have been faster
      if (e.code() != std::errc::file_exists || !how_.disk.exists(os::absolute_path(segment_path))) throw;
    }
  const open_segment in(*this, segment_path, {.raw = want.raw, .take_over = want.take_over});
  if (want.reserve && want.length != 0)
    throw error(errc::bad_option, segment_path +
                                      ": a region that grows with its segment goes to the segment's end: leave length "
                                      "0 with map_options::reserve");
  const std::uint64_t whole = round_down(in->length(), page);
  const std::uint64_t length = want.length != 0 ? want.length : whole - std::min(want.offset, whole);
  if (length == 0 || want.offset > in->length() || length > in->length() - want.offset)
    throw error(errc::segment_too_short, segment_path + ": the region wants bytes " + std::to_string(want.offset) +
                                             " to " + std::to_string(want.offset + length) + ", but the segment has " +
                                             std::to_string(in->length()));
  // What lies behind a length that is no multiple of the page size cannot be declared.
  const std::uint64_t mapped = round_up(length, page);
  const std::uint64_t capacity = want.reserve ? round_down(in->max_length(), page) - want.offset : mapped;
  for (const auto& r : regions_.all())
    if (r->in == &*in && r->offset < want.offset + capacity && want.offset < r->offset + r->capacity)
      throw error(errc::region_overlap,
                  segment_path + ": bytes " + std::to_string(r->offset) + " to " +
                      std::to_string(r->offset + r->capacity) +
                      " of this segment are mapped already; no part of a segment can be mapped twice");

  for (const auto& p : paged_)
    if (&p->in() == &*in)
      throw error(errc::region_overlap,
                  segment_path + ": the segment is open for pages; close its paged_segment before it is mapped");

  auto made = std::make_shared<region_state>();
  made->owner = this;
  made->in = &*in;
  made->segment_path = segment_path;
  made->offset = want.offset;
  made->capacity = static_cast<std::size_t>(capacity);
  made->grows = want.reserve;
  made->fresh = want.copy_in && want.fresh == fresh_space::file ? fresh_space::anonymous : want.fresh;
  made->backed_by_file = !want.copy_in;
  try {
    map_memory(*made, want.address, static_cast<std::size_t>(mapped), want.copy_in);
    os::exclude_from_fork(made->base, made->capacity);
    if (want.copy_in) in->read(want.offset, {made->base, static_cast<std::size_t>(round_up(length, redo_page))});
    made->length = static_cast<std::size_t>(length);
    if (made->backed_by_file) {
      if (want.sparse)
        os::advise_random(made->base, made->length);
      else
        advise_by_size(*made);
    }
    made->explained = os::fault_range(made->base, made->capacity, in->path(), want.offset);  // a tracker reads pages
    if (tracked && !opening_.is_read_only())
      made->tracker = std::make_unique<region_tracker>(writing_->tracked.host(), *made, want);
    made->explained = os::fault_range(made->base, made->capacity, in->path(), want.offset, made->tracker.get());
    if (made->tracker != nullptr && !os::is_known(made->explained))
      throw error(errc::bad_option, segment_path + ": there are too many regions to track one more automatically");
    if (want.barriers != write_barriers::none && !tracked && !opening_.is_read_only())
      made->declares = std::make_unique<declared_stores>(*made, writing_->users, want.barriers);
    if (opening_.is_read_only()) apply_log(*made);
    if (checking_.on && made->tracker == nullptr) {
      checking_.shadows = true;
      made->make_shadow();
    }
    regions_.add(made);
    in->note_mapped();
  } catch (...) {
    unmap_memory(*made);
    made->owner = nullptr;
    made->in = nullptr;
    throw;
  }
  return made;
}

// The first `length` bytes of the region; the rest of its address space stays reserved until it grows.
void region_mapper::map_memory(region_state& what, void* address, std::size_t length, bool copy_in) {
  const bool has_room = what.capacity != length;
  if (!copy_in && !has_room) {
    what.base = what.in->map(address, what.offset, length, os::access::read_write);
    return;
  }
  try {
    what.base = static_cast<std::byte*>(has_room ? os::reserve_address_space(address, what.capacity)
                                                 : os::map_anonymous(address, length));
  } catch (const error& e) {
    throw error(e.code(), what.segment_path + ": " + e.what());
  }
  if (!copy_in)
    what.in->map_over(what.base, what.offset, length, os::access::read_write);
  else if (has_room)
    os::map_anonymous_over(what.base, length);
  if (copy_in) what.anonymous.add(0, length);
}

void region_mapper::unmap(region_state& what) {
  opening_.require_own_process();
  const std::scoped_lock lock(mutex_);
  if (what.owner == nullptr) return;
  if (what.tracker != nullptr && !writing_->tracked.right().take_unless_transaction())
    throw error(errc::region_busy, what.segment_path + ": an automatic transaction is open; commit or abort it first");
  struct giver {  // of the automatic right
    automatic_right* right;
    ~giver() {
      if (right != nullptr) right->give();
    }
  } const give{what.tracker != nullptr ? &writing_->tracked.right() : nullptr};
  what.closing.store(true, std::memory_order_seq_cst);
  while (!os::heavy_fence()) {
  }
  if (const std::size_t users = writing_ ? writing_->users.users_of(what) : 0; users != 0) {
    what.closing.store(false, std::memory_order_seq_cst);
    throw error(errc::region_busy, what.segment_path + ": the region at offset " + std::to_string(what.offset) +
                                       " has uncommitted ranges of " + std::to_string(users) + " open transaction" +
                                       (users == 1 ? "" : "s") + "; commit or abort first");
  }
  if (writing_) {
    try {
      writing_->writer.wait(writing_->writer.last_commit());
      writing_->truncation.truncate_all();
    } catch (...) {
      what.closing.store(false, std::memory_order_seq_cst);
      throw;
    }
  }
  const auto remove = [&] {
    regions_.remove(what);
    what.owner = nullptr;
    unmap_memory(what);
  };
  // Truncation compares pages with memory, and commits in checking mode compare it with the shadow.
  if (writing_)
    writing_->truncation.with_lock([&] { writing_->writer.with_commits_stopped(remove); });
  else
    remove();
  close_unless_mapped(*what.in);
  what.in = nullptr;
}

void region_mapper::unmap_left() {
  std::vector<std::shared_ptr<region_state>> left;
  {
    const std::scoped_lock lock(mutex_);
    std::ranges::copy_if(regions_.all(), std::back_inserter(left),
                         [](const auto& r) { return r->owner != nullptr && r->was_left; });
  }
  for (const auto& r : left) unmap(*r);
}

void region_mapper::unmap_memory(region_state& what) noexcept {
  what.explained = {};
  what.reading_ahead.end();
  if (what.tracker != nullptr) what.tracker->release();
  if (what.declares != nullptr) what.declares->end();
  if (what.shadow != nullptr) os::unmap(what.shadow, what.capacity);
  if (what.base != nullptr) os::unmap(what.base, what.capacity);
  what.shadow = nullptr;
  what.length.store(0, std::memory_order_release);  // `base` stays: others may search tables that have this region
}

void region_mapper::abandon() noexcept {
  for (const auto& r : regions_.all()) {
    if (r->owner == nullptr) continue;
    unmap_memory(*r);
    r->owner = nullptr;
  }
  for (const auto& p : paged_) p->note_closed();
  paged_.clear();
}

void region_mapper::apply_log(region_state& what) const {
  changes_in_log(log_, live_, *what.in).for_each([&](segment&, std::uint64_t offset, os::const_bytes value) {
    // A value lies in one page, regions are whole pages.
    if (offset >= what.offset && offset < what.offset + what.length)
      std::memcpy(what.base + (offset - what.offset), value.data(), value.size());
  });
}

// Pages of a large region are read alone. Those that the program reads one after the other are read before.
void region_mapper::advise_by_size(region_state& what) {
  if (!os::advise_by_size(what.base, what.length) || !how_.background) return;
  std::call_once(what.asked_ahead, [&] { what.reading_ahead.follow(*what.in, what.offset, what.base, what.length); });
}

void region_mapper::read_ahead(region_state& what, std::size_t length) {
  opening_.require_own_process();
  if (!what.backed_by_file) return;
  // While all is read, a page that is touched meanwhile need not wait for others.
  if (!how_.background || length == 0 || length > os::usable_memory() / 4) return advise_by_size(what);
  length = std::min(round_down(length + os::page_size() - 1, os::page_size()), what.length.load());
  std::call_once(what.asked_ahead, [&] {
    what.reading_ahead.start(*what.in, what.offset, what.base, length, how_.limits.read_ahead_step);
  });
}

segment_info region_mapper::describe(const std::string& path) {
  opening_.require_usable();
  const std::scoped_lock lock(mutex_);
  const open_segment in(*this, path, {});
  segment_info info = in->info();
  info.is_of_this_log = segments_.is_of_this_log(*in);
  return info;
}

std::uint64_t region_mapper::length_of(const std::string& path, bool raw) {
  opening_.require_usable();
  const std::scoped_lock lock(mutex_);
  const open_segment in(*this, path, {.raw = raw});
  return round_down(in->length(), redo_page);
}

std::vector<std::uint64_t> region_mapper::verify(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  const open_segment in(*this, path, {});
  std::vector<std::uint64_t> bad;
  const auto verify = [&] { bad = in->verify(how_.progress); };
  // Truncation would change pages and checksums meanwhile.
  if (writing_) {
    writing_->truncation.with_lock(verify);
    return bad;
  }
  verify();
  if (bad.empty()) return bad;
  // Recovery writes pages anew, whatever they hold now.
  const redo values = changes_in_log(log_, live_, *in);
  std::erase_if(bad, [&](std::uint64_t offset) { return values.makes_sound(*in, offset / redo_page); });
  return bad;
}

}  // namespace tenure::rvm
