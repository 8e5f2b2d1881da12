// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments and regions of a memory: opening, mapping, unmapping, and giving private copies back.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "os/asymmetric_fence.hpp"
#include "os/process.hpp"
#include "os/virtual_memory.hpp"
#include "rvm/log_reader.hpp"
#include "rvm/memory_state.hpp"

namespace tenure::rvm {

namespace {

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

}  // namespace

// Log records name segments in or below the log's directory relative to it, so that the directory can be moved.
std::string memory_state::logged_path(const std::string& segment_path) const {
  const std::string absolute = os::absolute_path(segment_path), directory = directory_of(path);
  return absolute.starts_with(directory) ? absolute.substr(directory.size()) : absolute;
}
std::string memory_state::absolute_segment_path(const std::string& logged) const {
  return logged.starts_with('/') ? logged : directory_of(path) + logged;
}

segment* memory_state::find_segment(const segment_name& name) {
  const std::scoped_lock lock(segments_mutex);
  if (const auto at = segments.find(name.path); at != segments.end() && at->second->id() == name.id)
    return at->second.get();
  for (const auto& [logged, s] : segments)  // renamed while it was closed
    if (!name.raw && !s->is_raw() && s->id() == name.id) return s.get();
  throw error(errc::segment_missing,
              path + ": the log has changes for the segment " + name.path + ", which is not open");
}

segment& memory_state::open_segment(const std::string& segment_path, bool raw, bool take_over) {
  const std::string logged = logged_path(segment_path);
  {
    const std::scoped_lock lock(segments_mutex);
    if (const auto at = segments.find(logged); at != segments.end()) {
      if (at->second->is_raw() != raw)
        throw error(errc::bad_option,
                    segment_path + ": is open already " + (raw ? "as a segment with a header" : "as a raw segment"));
      return *at->second;
    }
  }
  auto opened = std::make_unique<segment>(disk, absolute_segment_path(logged), logged,
                                          read_only ? os::access::read_only : os::access::read_write, raw);
  if (!take_over) {
    opened->require_log(status_at_open.log_id);
    if (const auto why = opened->why_of_another_moment(status_at_open, path, log->window().tail); !why.empty())
      throw error(errc::wrong_log, opened->path() + ": this segment " + why +
                                       "; or, to go on with the files as they are, use `tenure log renew " + path +
                                       "`, or map_options::take_over");
  }
  if (take_over && !read_only) {
    opened->disown();
    opened->note_in_log(status_at_open.log_id, path, log->window().tail);
  }
  if (!read_only) opened->mend();
  const std::scoped_lock lock(segments_mutex);
  return *segments.emplace(logged, std::move(opened)).first->second;
}

void memory_state::close_segment_if_unused(segment& which) {
  for (const auto& r : regions.all())
    if (r->in == &which) return;
  if (!read_only) which.note_not_in_log();
  const std::scoped_lock lock(segments_mutex);
  segments.erase(which.logged_path());
}

memory_state::segment_user::~segment_user() {
  try {
    owner.close_segment_if_unused(in);
  } catch (...) {  // the segment stays marked, which its next opening under this log clears
  }
}

std::shared_ptr<region_state> memory_state::map(const std::string& segment_path, const map_options& want) {
  require_usable();
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
  const std::scoped_lock lock(map_mutex);
  if (want.create_length != 0 && !want.raw && !read_only && !disk.exists(os::absolute_path(segment_path))) try {
      segment::create(disk, os::absolute_path(segment_path),
                      {.length = want.create_length, .max_length = want.create_max_length});
    } catch (const error& e) {  // another process may have been faster
      if (e.code() != std::errc::file_exists || !disk.exists(os::absolute_path(segment_path))) throw;
    }
  segment& in = open_segment(segment_path, want.raw, want.take_over);
  const segment_user user{*this, in};
  if (want.reserve && want.length != 0)
    throw error(errc::bad_option, segment_path +
                                      ": a region that grows with its segment goes to the segment's end: leave length "
                                      "0 with map_options::reserve");
  const std::uint64_t whole = round_down(in.length(), page);
  const std::uint64_t length = want.length != 0 ? want.length : whole - std::min(want.offset, whole);
  if (length == 0 || want.offset > in.length() || length > in.length() - want.offset)
    throw error(errc::segment_too_short, segment_path + ": the region wants bytes " + std::to_string(want.offset) +
                                             " to " + std::to_string(want.offset + length) + ", but the segment has " +
                                             std::to_string(in.length()));
  // What lies behind a length that is no multiple of the page size cannot be declared.
  const std::uint64_t mapped = round_up(length, page);
  const std::uint64_t capacity = want.reserve ? round_down(in.max_length(), page) - want.offset : mapped;
  for (const auto& r : regions.all())
    if (r->in == &in && r->offset < want.offset + capacity && want.offset < r->offset + r->capacity)
      throw error(errc::region_overlap,
                  segment_path + ": bytes " + std::to_string(r->offset) + " to " +
                      std::to_string(r->offset + r->capacity) +
                      " of this segment are mapped already; no part of a segment can be mapped twice");

  auto made = std::make_shared<region_state>();
  made->owner = this;
  made->in = &in;
  made->segment_path = segment_path;
  made->offset = want.offset;
  made->capacity = static_cast<std::size_t>(capacity);
  made->grows = want.reserve;
  made->fresh = want.copy_in && want.fresh == fresh_space::file ? fresh_space::anonymous : want.fresh;
  made->backed_by_file = !want.copy_in;
  try {
    map_memory(*made, want.address, static_cast<std::size_t>(mapped), want.copy_in);
    os::exclude_from_fork(made->base, made->capacity);
    if (want.copy_in) in.read(want.offset, {made->base, static_cast<std::size_t>(round_up(length, redo_page))});
    made->length = static_cast<std::size_t>(length);
    if (made->backed_by_file) {
      if (want.sparse)
        os::advise_random(made->base, made->length);
      else
        os::advise_by_size(made->base, made->length);
    }
    if (tracked && !read_only) made->tracker = std::make_unique<region_tracker>(*tracking, *made, want);
    made->explained =
        os::fault_range(made->base, made->capacity, in.path(), in.data_offset() + want.offset, made->tracker.get());
    if (made->tracker != nullptr && !os::is_known(made->explained))
      throw error(errc::bad_option, segment_path + ": there are too many regions to track one more automatically");
    if (read_only) replay_into(*made);
    if (checking && made->tracker == nullptr) make_shadow(*made);
    auto table = regions.all();
    table.insert(std::ranges::upper_bound(table, made->base, {}, &region_state::base), made);
    regions.publish(std::move(table));
  } catch (...) {
    unmap_memory(*made);
    throw;
  }
  return made;
}

// The first `length` bytes of the region; the rest of its address space stays reserved until it grows.
void memory_state::map_memory(region_state& what, void* address, std::size_t length, bool copy_in) {
  os::file& file = what.in->file();
  const std::uint64_t at = what.in->data_offset() + what.offset;
  const bool has_room = what.capacity != length;
  if (!copy_in && !has_room) {
    what.base = static_cast<std::byte*>(file.map_private(address, at, length, true));
    return;
  }
  try {
    what.base = static_cast<std::byte*>(has_room ? os::reserve_address_space(address, what.capacity)
                                                 : os::map_anonymous(address, length));
  } catch (const error& e) {
    throw error(e.code(), what.segment_path + ": " + e.what());
  }
  if (!copy_in)
    file.map_private_over(what.base, at, length, true);
  else if (has_room)
    os::map_anonymous_over(what.base, length, false);
  if (copy_in) what.anonymous.add(0, length);
}

// A log that is opened for reading keeps its changes; the region gets them in its private copy.
void memory_state::replay_into(region_state& what) {
  changes_in_log(*what.in).for_each([&](segment&, std::uint64_t offset, os::const_bytes value) {
    // A value lies in one page, regions are whole pages.
    if (offset >= what.offset && offset < what.offset + what.length)
      std::memcpy(what.base + (offset - what.offset), value.data(), value.size());
  });
}

redo memory_state::changes_in_log(segment& of) {
  redo values([this, &of](const segment_name& name) {
    const bool same = name.raw == of.is_raw() && (name.raw ? name.path == of.logged_path() : name.id == of.id());
    // As in recovery: these are not changes of what is there.
    if (same && !of.waits_in(status_at_open.log_id))
      throw error(errc::wrong_log,
                  of.path() + ": the log " + path +
                      " has changes for this segment, but the segment does not know of them: another log has taken it "
                      "over, or it is an older copy; put the right file back");
    return same ? &of : nullptr;
  });
  if (live.length() != 0)
    read_backwards(*log, live, [&](const group_view& group) {
      values.add(group);
      return true;
    });
  return values;
}

void memory_state::forget_pages_in_log(segment& of, std::vector<std::uint64_t>& offsets) {
  const redo values = changes_in_log(of);
  std::erase_if(offsets, [&](std::uint64_t offset) { return values.makes_sound(of, offset / redo_page); });
}

void memory_state::unmap(region_state& what) {
  require_own_process();
  const std::scoped_lock lock(map_mutex);
  if (what.owner == nullptr) return;
  if (what.tracker != nullptr && !automatic.take_unless_transaction())
    throw error(errc::region_busy, what.segment_path + ": an automatic transaction is open; commit or abort it first");
  struct giver {  // of the automatic right
    automatic_right* right;
    ~giver() {
      if (right != nullptr) right->give();
    }
  } const give{what.tracker != nullptr ? &automatic : nullptr};
  what.closing.store(true, std::memory_order_seq_cst);
  while (!os::heavy_fence()) {
  }
  std::size_t users = 0;
  {
    const std::scoped_lock open(open_mutex);
    for_each_open([&](const transaction_state& tx) { users += tx.uses(what); });
  }
  if (users != 0) {
    what.closing.store(false, std::memory_order_seq_cst);
    throw error(errc::region_busy, what.segment_path + ": the region at offset " + std::to_string(what.offset) +
                                       " has uncommitted ranges of " + std::to_string(users) + " open transaction" +
                                       (users == 1 ? "" : "s") + "; commit or abort first");
  }
  if (!read_only) {
    try {
      writer->wait(writer->last_commit());
      truncation->everything();
    } catch (...) {
      what.closing.store(false, std::memory_order_seq_cst);
      throw;
    }
  }
  const auto remove = [&] {
    auto table = regions.all();
    std::erase_if(table, [&](const auto& r) { return r.get() == &what; });
    regions.publish(std::move(table));
    what.owner = nullptr;
    unmap_memory(what);
  };
  // Truncation compares pages with memory, and commits in checking mode compare it with the shadow.
  if (read_only)
    remove();
  else
    truncation->exclusively([&] { writer->between_commits(remove); });
  close_segment_if_unused(*what.in);
  what.in = nullptr;
}

void memory_state::unmap_memory(region_state& what) noexcept {
  what.explained = {};
  if (what.reading_ahead != nullptr) what.reading_ahead->end();
  if (what.tracker != nullptr) what.tracker->release();
  if (what.shadow != nullptr) os::unmap(what.shadow, what.capacity);
  if (what.base != nullptr) os::unmap(what.base, what.capacity);
  what.shadow = what.base = nullptr;
}

page_set memory_state::referenced_pages() {
  page_set pages;
  {
    const std::scoped_lock lock(open_mutex);
    for_each_open([&](transaction_state& tx) { tx.touched.add_to(pages); });
  }
  pages.sort();
  return pages;
}

void memory_state::pages_damaged(const std::vector<page_ref>& pages) noexcept {
  count.damaged_pages += pages.size();
  try {
    for (const page_ref& page : pages)
      if (how.on_damage) how.on_damage({page.in->path(), page.page * redo_page});
  } catch (...) {  // the pages are marked, and counted
  }
}

void memory_state::mark_segments(status_block& status) {
  const std::scoped_lock lock(segments_mutex);
  for (const auto& [logged, s] : segments) s->mark_in(status);
}

void memory_state::pages_written(const std::vector<dirty_page>& pages) noexcept {
  try {
    drop_private_copies(pages);
    for (const auto& r : regions.all()) {
      if (r->tracker == nullptr) continue;
      for (const dirty_page& page : pages)
        if (r->in == page.in && page.page * redo_page >= r->offset && page.page * redo_page < r->offset + r->length)
          r->tracker->page_written(page.page);
    }
  } catch (...) {  // only memory is not given back
  }
  if (!automatic.try_take()) return;  // who has the right does it
  give_back_written_pages(true);
  automatic.give();
}

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
void memory_state::drop_private_copies(const std::vector<dirty_page>& pages) {
  const auto table = regions.all();
  std::vector<host_page> places;
  for (const dirty_page& page : pages)
    for (const auto& r : table)
      if (r->in == page.in && page.page * redo_page >= r->offset && page.page * redo_page < r->offset + r->length &&
          r->tracker == nullptr && !r->anonymous.contains(static_cast<std::size_t>(page.page * redo_page - r->offset)))
        places.emplace_back(*r, round_down(page.page * redo_page, os::page_size()));
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());

  const std::size_t at_once = limits.dropped_at_once;  // transactions wait for a page that is reserved
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
    const page_set referenced = referenced_pages();
    std::vector<os::page_run> runs;
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (!some[i].is_quiet(referenced, *queue)) continue;
      if (std::memcmp(some[i].memory(), stored.data() + i * length, length) != 0) continue;
      os::append_page(runs, some[i].memory(), length);
      some[i].note_dropped();
      ++dropped;
    }
    os::drop_private_copies(runs);
    count.private_pages_dropped += dropped;
    count.private_pages_kept += some.size() - dropped;
  }
}

void memory_state::storage_failed(const error& why) { writer->fail(why); }

}  // namespace tenure::rvm
