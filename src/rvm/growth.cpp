// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments that grow, the regions that grow with them, and memory that is given back to the file.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "os/asymmetric_fence.hpp"
#include "os/virtual_memory.hpp"
#include "rvm/memory_state.hpp"
#include "rvm/region_tracker.hpp"

namespace tenure::rvm {

namespace {

// The new end of a region's memory: in place before the segment has grown, so that nothing has changed if either fails.
class extension {
 public:
  extension(region_state& of, std::size_t length) : of_(of), from_(of.length), to_(length) {
    std::byte* const at = of_.base + from_;
    if (of_.fresh == fresh_space::file)
      of_.in->file().map_private_over(at, of_.in->data_offset() + of_.offset + from_, to_ - from_, true);
    else
      os::map_anonymous_over(at, to_ - from_, of_.fresh == fresh_space::huge_pages);
    os::exclude_from_fork(at, to_ - from_);
  }
  ~extension() {
    if (of_.length != to_) os::reserve_again(of_.base + from_, to_ - from_);
  }
  extension(const extension&) = delete;
  extension& operator=(const extension&) = delete;

  // The segment has grown.
  void publish() {
    if (of_.tracker != nullptr)
      of_.tracker->grow(to_, of_.fresh != fresh_space::file);
    else if (of_.fresh != fresh_space::file)
      of_.anonymous.add(from_, to_);
    of_.length.store(to_, std::memory_order_release);
  }

 private:
  region_state& of_;
  const std::size_t from_, to_;
};

}  // namespace

std::uint64_t memory_state::grow_segment(const std::string& segment_path, std::uint64_t want) {
  require_writable();
  writer->require_usable();
  const std::scoped_lock lock(map_mutex);
  segment& in = open_segment(segment_path, false);
  const segment_user user{*this, in};
  if (want <= in.length()) return in.length();
  if (want > in.max_length())
    throw error(errc::segment_full, segment_path + ": the segment cannot have " + std::to_string(want) +
                                        " bytes: it was made with a max_length of " + std::to_string(in.max_length()) +
                                        "; copy it into one with a larger max_length");
  const std::uint64_t length =
      std::min(round_up(want, std::max<std::uint64_t>(os::page_size(), redo_page)), in.max_length());
  region_state* growing = nullptr;
  for (const auto& r : regions.all())
    if (r->in == &in && r->grows) growing = r.get();  // one at most: they would overlap
  // Syncs of a file have one user at a time: one that fails may have been the other's.
  truncation->exclusively([&] {
    std::optional<extension> more;
    if (growing != nullptr) more.emplace(*growing, static_cast<std::size_t>(length - growing->offset));
    try {
      in.grow(length);
    } catch (const error& e) {
      if (e.code() == errc::outcome_unknown) storage_failed(e);
      throw;
    }
    if (more) more->publish();
  });
  return length;
}

namespace {

// Pages of a region that nobody can declare or truncate while this exists [rvm.page.reserved].
class reservation {
 public:
  reservation(region_state& in, std::size_t from, std::size_t to)
      : pages_(in.in->pages()), first_((in.offset + from) / redo_page), end_((in.offset + to) / redo_page) {
    for (std::uint64_t page = first_; page < end_; ++page) pages_.reserve(page);
  }
  ~reservation() {
    for (std::uint64_t page = first_; page < end_; ++page) pages_.release(page);
  }
  reservation(const reservation&) = delete;
  reservation& operator=(const reservation&) = delete;

 private:
  page_vector& pages_;
  const std::uint64_t first_, end_;
};

}  // namespace

// With the truncation lock held. At most an extent, all anonymous or all of the file. Returns the bytes that the file backs
// now.
std::size_t memory_state::settle(region_state& what, std::size_t from, std::size_t to, bool anonymous) {
  const std::size_t page = os::page_size();
  std::vector<std::byte> stored(to - from);
  what.in->read(what.offset + from, stored);
  const reservation reserved(what, from, to);
  if (!os::heavy_fence()) return 0;
  const page_set referenced = referenced_pages();
  std::vector<os::page_run> equal;
  std::size_t bytes = 0;
  for (std::size_t at = from; at < to; at += page) {
    bool settled = true;
    for (std::uint64_t p = (what.offset + at) / redo_page; p < (what.offset + at + page) / redo_page; ++p)
      settled = settled && !referenced.contains({what.in, p}) && queue->is_settled({what.in, p});
    if (settled && std::memcmp(what.base + at, stored.data() + (at - from), page) == 0)
      os::append_page(equal, what.base + at, page);
    else if (anonymous)
      return 0;
  }
  if (anonymous) {
    what.in->file().map_private_over(what.base + from, what.in->data_offset() + what.offset + from, to - from, true);
    os::exclude_from_fork(what.base + from, to - from);
    what.anonymous.remove(from, to);
  } else {
    os::drop_private_copies(equal);
  }
  for (const os::page_run& run : equal) {
    const std::uint64_t offset = what.offset + static_cast<std::uint64_t>(run.address - what.base);
    for (std::uint64_t p = offset / redo_page; p < (offset + run.length) / redo_page; ++p)
      what.in->pages().note_dropped(p);
    bytes += run.length;
  }
  count.private_pages_dropped += bytes / page;
  return bytes;
}

std::size_t memory_state::back_with_file(region_state& what, std::size_t offset, std::size_t length) {
  require_writable();
  const std::size_t page = os::page_size();
  if (offset % page != 0 || length % page != 0)
    throw error(errc::misaligned, what.segment_path + ": offset " + std::to_string(offset) + " and length " +
                                      std::to_string(length) + " must be multiples of the page size, " +
                                      std::to_string(page));
  const std::scoped_lock lock(map_mutex);
  if (what.owner == nullptr) throw error(errc::closed, "the region is not mapped any more");
  if (what.tracker != nullptr)
    throw error(errc::wrong_tracking,
                what.segment_path + ": a region that is tracked automatically gives memory back by itself");
  std::size_t backed = 0;
  for (std::size_t at = offset; at < offset + length;) {
    const std::size_t limit = std::min(offset + length, (at / limits.extent + 1) * limits.extent);
    // The lock for an extent at a time: commits may be waiting for truncation.
    truncation->exclusively([&] {
      const bool anonymous = what.anonymous.contains(at);
      const std::size_t end = what.anonymous.end_of_run(at, limit);
      if (anonymous) {
        backed += settle(what, at, end, true);
      } else {
        backed += end - at;
        os::for_each_private_copy(what.base + at, end - at, [&](os::page_run run) {
          const auto from = static_cast<std::size_t>(run.address - what.base);
          backed -= run.length - settle(what, from, from + run.length, false);
        });
      }
      at = end;
    });
  }
  return backed;
}

}  // namespace tenure::rvm
