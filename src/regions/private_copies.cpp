// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory that is given back: the process's copies of pages that the file has as they are, and memory that the file does not
// back yet.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "os/asymmetric_fence.hpp"
#include "os/virtual_memory.hpp"
#include "regions/region_mapper.hpp"

namespace tenure::rvm {

namespace {

// A page of the host, in a region; with a reservation of every redo page in it.
class host_page {
 public:
  host_page(region_state& in, std::uint64_t offset) : in_(&in), offset_(offset) {}
  [[nodiscard]] std::byte* memory() const { return in_->base + (offset_ - in_->offset); }
  [[nodiscard]] region_state& in() const { return *in_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] bool follows(const host_page& other) const {
    return in_ == other.in_ && offset_ == other.offset_ + os::page_size();
  }
  auto operator<=>(const host_page&) const = default;

  // Calls f(pages, page) for each redo page in it.
  template <class F>
  void for_each_part(F&& f) const {
    const std::uint64_t first = offset_ / redo_page, parts = std::max<std::uint64_t>(os::page_size() / redo_page, 1);
    for (std::uint64_t page = first; page < first + parts; ++page) f(in_->in->pages(), page);
  }
  void reserve() const {
    for_each_part([](page_vector& pages, std::uint64_t page) { pages.reserve(page); });
  }
  void release() const {
    for_each_part([](page_vector& pages, std::uint64_t page) { pages.release(page); });
  }
  void note_dropped() const {
    for_each_part([](page_vector& pages, std::uint64_t page) { pages.note_dropped(page); });
  }
  // Whether nothing uncommitted and nothing unsynced is on it, and so nothing will be until it is released. Uncommitted
  // first: who commits notes the batch before his reference goes.
  [[nodiscard]] bool is_quiet(const page_set& referenced, const page_queue& queue) const {
    bool quiet = true;
    for_each_part([&](page_vector& pages, std::uint64_t page) {
      quiet = quiet && !referenced.contains({in_->in, page}) && pages.last_batch(page) <= queue.published();
    });
    return quiet;
  }

 private:
  region_state* in_;
  std::uint64_t offset_;  // in the segment
};

}  // namespace

// A private copy may go if nothing can be written to it meanwhile, nothing unsynced is on it, and it equals the file's page
// [rvm.page.drop]. What the file holds was synced before this is called.
void region_mapper::drop_private_copies(const std::vector<dirty_page>& pages) {
  const auto table = regions_.all();
  std::vector<host_page> places;
  for (const dirty_page& page : pages)
    for (const auto& r : table)
      if (r->holds(page.in, page.page) && r->tracker == nullptr &&
          !r->anonymous.contains(static_cast<std::size_t>(page.page * redo_page - r->offset)))
        places.emplace_back(*r, round_down(page.page * redo_page, os::page_size()));
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());

  const std::size_t at_once = how_.limits.dropped_at_once;  // transactions wait for a page that is reserved
  const std::size_t length = os::page_size();
  std::vector<std::byte> stored(at_once * length);
  for (std::size_t begin = 0; begin < places.size(); begin += at_once) {
    const auto some = std::span(places).subspan(begin, std::min(at_once, places.size() - begin));
    for (std::size_t i = 0, run; i < some.size(); i += run) {  // pages that follow each other take one read
      for (run = 1; i + run < some.size() && some[i + run].follows(some[i + run - 1]); ++run) {
      }
      some[i].in().in->read(some[i].offset(), os::bytes(stored).subspan(i * length, run * length));
    }
    struct reservation {
      std::span<const host_page> pages;
      explicit reservation(std::span<const host_page> which) : pages(which) {
        for (const host_page& p : pages) p.reserve();
      }
      ~reservation() {
        for (const host_page& p : pages) p.release();
      }
    } const reserved(some);
    if (!os::heavy_fence()) return;
    const page_set referenced = writing_->users.referenced_pages();
    os::page_runs runs;
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!some[i].is_quiet(referenced, writing_->queue)) continue;
      if (std::memcmp(some[i].memory(), stored.data() + i * length, length) != 0) continue;
      os::append_page(runs, some[i].memory(), length);
      some[i].note_dropped();
      ++dropped;
    }
    os::drop_private_copies(runs);
    count_.private_pages_dropped += dropped;
    count_.private_pages_kept += some.size() - dropped;
  }
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

// With the truncation lock held. At most a backing unit, all anonymous or all of the file. Returns the bytes that the file backs
// now.
std::size_t region_mapper::drop_equal(region_state& what, std::size_t from, std::size_t to, bool anonymous) {
  const std::size_t page = os::page_size();
  std::vector<std::byte> stored(to - from);
  what.in->read(what.offset + from, stored);
  const reservation reserved(what, from, to);
  if (!os::heavy_fence()) return 0;
  const page_set referenced = writing_->users.referenced_pages();
  os::page_runs equal;
  std::size_t bytes = 0;
  for (std::size_t at = from; at < to; at += page) {
    bool written = true;
    for (std::uint64_t p = (what.offset + at) / redo_page; p < (what.offset + at + page) / redo_page; ++p)
      written = written && !referenced.contains({what.in, p}) && writing_->queue.is_in_segment({what.in, p});
    if (written && std::memcmp(what.base + at, stored.data() + (at - from), page) == 0)
      os::append_page(equal, what.base + at, page);
    else if (anonymous)
      return 0;
  }
  if (anonymous) {
    what.in->map_over(what.base + from, what.offset + from, to - from, os::access::read_write);
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
  count_.private_pages_dropped += bytes / page;
  return bytes;
}

std::size_t region_mapper::back_with_file(region_state& what, std::size_t offset, std::size_t length) {
  opening_.require_writable();
  const std::size_t page = os::page_size();
  if (offset % page != 0 || length % page != 0)
    throw error(errc::misaligned, what.segment_path + ": offset " + std::to_string(offset) + " and length " +
                                      std::to_string(length) + " must be multiples of the page size, " +
                                      std::to_string(page));
  const std::scoped_lock lock(mutex_);
  if (what.owner == nullptr) throw error(errc::closed, "the region is not mapped any more");
  if (what.tracker != nullptr)
    throw error(errc::wrong_tracking,
                what.segment_path + ": a region that is tracked automatically gives memory back by itself");
  std::size_t backed = 0;
  for (std::size_t at = offset; at < offset + length;) {
    const std::size_t limit = std::min(offset + length, (at / how_.limits.backing_unit + 1) * how_.limits.backing_unit);
    // The lock for one backing unit at a time: commits may be waiting for truncation.
    writing_->truncation.with_lock([&] {
      const bool anonymous = what.anonymous.contains(at);
      const std::size_t end = what.anonymous.end_of_run(at, limit);
      if (anonymous) {
        backed += drop_equal(what, at, end, true);
      } else {
        backed += end - at;
        os::for_each_private_copy(what.base + at, end - at, [&](os::page_run run) {
          const auto from = static_cast<std::size_t>(run.address - what.base);
          backed -= run.length - drop_equal(what, from, from + run.length, false);
        });
      }
      at = end;
    });
  }
  return backed;
}

}  // namespace tenure::rvm
