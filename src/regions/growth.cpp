// Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
//
// Segments that grow, and the regions that grow with them. Space on the disk for what was cleared.
#include <algorithm>
#include <cassert>

#include "os/virtual_memory.hpp"
#include "regions/declared_stores.hpp"
#include "regions/open_segment.hpp"
#include "regions/region_mapper.hpp"

namespace tenure::rvm {

namespace {

// The new end of a region's memory: in place before the segment has grown, so that nothing has changed if either fails.
class extension {
 public:
  extension(region_state& of, std::size_t length) : of_(of), from_(of.length), to_(length) {
    std::byte* const at = of_.base + from_;
    const std::size_t added = to_ - from_;
    if (of_.fresh == fresh_space::file)
      of_.in->map_over(at, of_.offset + from_, added, os::access::read_write);
    else if (of_.fresh == fresh_space::huge_pages)
      os::map_anonymous_huge_over(at, added);
    else
      os::map_anonymous_over(at, added);
    os::exclude_from_fork(at, added);
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
    if (of_.declares != nullptr) of_.declares->grow(to_);
  }

 private:
  region_state& of_;
  const std::size_t from_, to_;
};

}  // namespace

std::uint64_t region_mapper::grow_segment(const std::string& segment_path, std::uint64_t want) {
  opening_.require_writable();
  writing_->writer.require_usable();
  const std::scoped_lock lock(mutex_);
  const open_segment in(*this, segment_path, {});
  if (want <= in->length()) return in->length();
  if (want > in->max_length())
    throw error(errc::segment_full, segment_path + ": the segment cannot have " + std::to_string(want) +
                                        " bytes: it was made with a max_length of " + std::to_string(in->max_length()) +
                                        "; copy it into one with a larger max_length");
  const std::uint64_t length =
      std::min(round_up(want, std::max<std::uint64_t>(os::page_size(), redo_page)), in->max_length());
  region_state* growing = nullptr;
  for (const auto& r : regions_.all())
    if (r->in == &*in && r->grows) growing = r.get();  // one at most: they would overlap
  // Syncs of a file have one user at a time: one that fails may have been the other's.
  writing_->truncation.with_lock([&] {
    std::optional<extension> more;
    if (growing != nullptr) more.emplace(*growing, static_cast<std::size_t>(length - growing->offset));
    try {
      in->grow(length);
    } catch (const error& e) {
      if (e.code() == errc::outcome_unknown) writing_->writer.fail(e);
      throw;
    }
    if (more) more->publish();
  });
  return length;
}

void region_mapper::allocate(segment& in, std::uint64_t offset, std::uint64_t length) {
  if (!writing_) return;
  writing_->writer.require_usable();
  writing_->truncation.with_lock([&] {
    try {
      in.allocate(offset, length);
    } catch (const error& e) {
      if (e.code() == errc::outcome_unknown) writing_->writer.fail(e);
      throw;
    }
  });
}

}  // namespace tenure::rvm
